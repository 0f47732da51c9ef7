"""Where theory and testbed meet: experiments, the claims ledger, the report and the command line."""
