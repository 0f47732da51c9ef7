"""Questions to the campaign, one file each; every module exports EXPERIMENT."""
