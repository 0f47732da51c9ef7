"""Decoders that are written as folders and read by transformers."""

import torch

from icl.published import own


def exported(ours, place, patch, **options):
    """A decoder that is written to `place`/theirs, as transformers reads it."""
    import transformers

    own.save(ours, place / "theirs", **options)
    patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(place / "modules"))
    options = {"trust_remote_code": True, "dtype": torch.float32}
    return transformers.AutoModelForCausalLM.from_pretrained(place / "theirs", **options).eval()
