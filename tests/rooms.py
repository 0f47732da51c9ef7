"""A contract for import-linter: layers of which one holds the papers' rooms, found by looking.

A layer that is called `papers` stands for every room of `theory` that has a module `paper`, each independent of the
others.  So a new paper needs no line in pyproject.toml, and a stray file or folder is still an error.
"""

from typing import ClassVar

from grimp import ImportGraph
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail
from importlinter.domain.contract import ContractCheck

PAPERS = "papers"


class RoomsContract(LayersContract):
    type_name: ClassVar[str] = "rooms"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        rooms = {room.rpartition(".")[2] for room in graph.find_children("theory") if f"{room}.paper" in graph.modules}
        (container,) = (str(container) for container in self.containers)
        there = {child.rpartition(".")[2] for child in graph.find_children(container)}
        papers = Layer({ModuleTail(name) for name in rooms & there}, is_independent=True)
        self.layers = [
            papers if PAPERS in {tail.name for tail in layer.module_tails} else layer for layer in self.layers
        ]
        check: ContractCheck = super().check(graph, verbose)
        return check
