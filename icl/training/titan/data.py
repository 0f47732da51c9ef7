"""Prepared text (`crosslayer data prepare`) as a data loader of torchtitan: the batches of our own trainings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.tokenizer import BaseTokenizer

from icl.data.shards import open_data
from icl.data.tokenizers import load_tokenizer
from icl.training.objectives import TextTask


class PreparedText(BaseDataLoader):
    """The batches of `icl.training.objectives.TextTask`, each process's share of them, from any step on."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """The folder, as `crosslayer data prepare` leaves it, and the seed of the order."""

        folder: str = ""
        seed: int = 0

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, seq_len: int, local_batch_size: int, **_: Any
    ) -> None:
        self.task = TextTask(open_data(Path(config.folder)), seq_len)
        self.seed, self.step = config.seed, 0
        self.size = local_batch_size * dp_world_size
        self.own = slice(dp_rank * local_batch_size, (dp_rank + 1) * local_batch_size)

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        while True:
            batch = self.task.batch(self.seed, self.step, self.size, self.own)
            self.step += 1
            yield {"input": batch.inputs}, batch.targets

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.step = state_dict["step"]


class PreparedTokenizer(BaseTokenizer):
    """The tokenizer that the text was prepared with; a training of prepared text reads its vocabulary alone."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        folder: str = ""

    def __init__(self, config: Config, **_: Any) -> None:
        super().__init__()
        folder = Path(config.folder)
        self.own = load_tokenizer(folder, open_data(folder).manifest.tokenizer)

    def encode(self, text: str, **_: Any) -> list[int]:
        (ids,) = self.own.encode([text])
        return list(ids)

    def decode(self, ids: list[int], **_: Any) -> str:
        return self.own.decode(ids)

    def get_vocab_size(self) -> int:
        return self.own.vocab
