"""Every row of the table of hypotheses has its check in the ledger."""

from experiments import catalogue
from theory.attnres.hypotheses import ROWS, table


def test_every_row_is_backed_by_a_check_of_the_ledger():
    for row in ROWS:
        assert row.check in {evidence.holds.__name__ for evidence in catalogue.claim(row.entry).evidence}


def test_the_table_has_all_of_them():
    assert table().count("falls:") == len(ROWS) >= 4
    assert {"norm", "eps", "head", "zero"} <= set(table().replace(":", " ").split())
