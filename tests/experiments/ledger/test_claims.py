"""Every ledger entry stands: its checks hold for what we state and reject the negative control."""

import pytest

from experiments import catalogue
from experiments.claims import LEDGER, SUBJECTS
from experiments.claims.ledger import Claim, Evidence, verify


@pytest.mark.parametrize("claim_id", list(LEDGER))
def test_entry_stands(claim_id):
    for outcome in verify(LEDGER[claim_id]).outcomes:
        assert outcome.holds, outcome.what
        assert outcome.control_rejected, f"the control is not rejected: {outcome.what}"


def test_entries_are_complete():
    for claim in LEDGER.values():
        assert claim.statement
        assert claim.place
        assert claim.assumes
        assert len(claim.evidence) >= 2, f"{claim.id} needs two lines of evidence"
        assert claim.correction or claim.verdict == "verified", "what is true instead?"
        assert all(e.wrong for e in claim.evidence)
        assert set(claim.experiments) <= set(catalogue.names())


def test_no_id_is_used_twice():
    ids = [claim.id for subject in SUBJECTS for claim in subject.CLAIMS]
    assert len(ids) == len(set(ids)) == len(LEDGER)


def test_experiments_name_entries_that_exist():
    for name in catalogue.names():
        assert set(catalogue.experiment(name).claims) <= set(LEDGER)


@pytest.mark.parametrize(
    ("holds", "stands"), [(lambda v: v == 1, True), (lambda _: True, False), (lambda _: False, False)]
)
def test_a_check_that_cannot_fail_does_not_stand(holds, stands):
    evidence = Evidence("numeric", "", holds, states=1, control=2, wrong="two")
    claim = Claim("x", "p", "here", "s", "none", "verified", "", (evidence,))
    assert verify(claim).stands is stands


def test_no_evidence_does_not_stand():
    assert not verify(Claim("x", "p", "here", "s", "none", "open", "", ())).stands
