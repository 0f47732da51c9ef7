"""A model folder for torchtitan: decoders under any plan, trained by torchtitan's own loop.

    torchrun --nproc-per-node 8 -m torchtitan.train --module icl.training.titan --config skipv1_debug
    python -m icl.training.titan.on_cpu --module icl.training.titan --config skipv1_debug       without a GPU

torchtitan must be installed; only modules of this folder import it, and `icl.training.titan.text` does not.  A training
of one's own is a function in a module of one's own, which `--module` and `--config` name:

    from icl.training.titan.config_registry import training

    def mine():
        return training(sizes, "skipv1+gqa", data="data/novels", steps=20_000, batch=64)

What runs, and what was compared, stands in icl/published/FRAMEWORKS.md.
"""
