"""The shape of a claim: its statement, and beside it the checks that establish it."""
