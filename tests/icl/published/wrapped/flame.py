"""flame's sequence of calls in two processes: from_config on meta, FSDP2 by layer, to_empty, post_init, its forward.

Steps and arguments are those of fla-org/flame at e11e7be (flame/train.py, flame/models/parallelize_fla.py), named where
they stand.  Every process reads half of a batch, as rows or, `varlen`, as one row of several texts.  Losses, gradient
norms and weights are left beside those of one process that trains the decoder itself on all of it."""

import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from transformers import AutoConfig, AutoModelForCausalLM

import icl.published.wrapped
from icl.models.decoder import Decoder

SIZES = {
    "vocab_size": 23,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
}
VARIANTS = ("skipv1", "svformer+gqa")
STEPS, LENGTH, SEED = 2, 12, 7
ids = torch.randint(23, (STEPS, 4, LENGTH), generator=torch.Generator().manual_seed(0))


def config_of(variant):
    return AutoConfig.for_model("crosslayer", plan=variant, **SIZES)


def made(variant, mesh, *, recompute):
    """The model after train.py:213 to 282, with parallelize_fla.py:363 (activations) and 440 to 467 (FSDP2)."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config_of(variant))
        model.apply(lambda m: setattr(m, "_is_hf_initialized", False))
    blocks = getattr(model, model.base_model_prefix).layers
    if recompute:
        for name, block in blocks.named_children():
            blocks.register_module(name, checkpoint_wrapper(block, preserve_rng_state=False))
    options = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32)}
    for i, block in enumerate(blocks):
        fully_shard(block, **options, reshard_after_forward=i < len(blocks) - 1)
    fully_shard(model, **options, reshard_after_forward=True)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo adds, and does not average
    model.to_empty(device="cpu")
    torch.manual_seed(SEED)
    with torch.no_grad():
        model.post_init()
    model.train()
    return model


def trained(variant, mesh, *, recompute=False, varlen=False):
    """The loss of every step (train.py:444 to 504), the norm of its gradient (509), and the weights at the end."""
    model = made(variant, mesh, recompute=recompute)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-15, weight_decay=0.1)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        rows = ids[step, 2 * mesh.get_local_rank() :][:2]
        texts = None
        position_ids = torch.arange(LENGTH).repeat(len(rows), 1).to(torch.int32)
        if varlen:  # texts of a row one after the other, and where they begin
            rows, position_ids = rows.reshape(1, -1), position_ids.flatten()
            texts = torch.tensor([[0, LENGTH, 2 * LENGTH]], dtype=torch.int32)
        output = model(input_ids=rows, labels=rows.clone(), position_ids=position_ids, cu_seqlens=texts)
        loss = output.loss / 1
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()], foreach=True).full_tensor()
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm, foreach=True)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(float(mean) / 2)
        norms.append(float(norm))
    whole = {name: p.full_tensor().detach() for name, p in model.named_parameters()}
    return losses, norms, {name.replace("_checkpoint_wrapped_module.", ""): p for name, p in whole.items()}


def alone(variant, *, varlen=False):
    """The same of a decoder in one process, with a loss that is written out.

    In a row of several texts the last token of one is followed by the first of the next, as flame's labels have it.
    """
    config = config_of(variant)
    torch.manual_seed(SEED)
    seed = int(torch.randint(2**62, ()))
    model = Decoder(*config.described(), seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-15, weight_decay=0.1)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        joined = 2 if varlen else 4
        scores, labels = model(ids[step]).reshape(joined, -1, 23), ids[step].reshape(joined, -1)
        loss = torch.nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms, {f"decoder.{name}": p.detach() for name, p in model.named_parameters()}


def apart(one, other):
    losses, norms, weights = one
    expected = other[2]
    return {
        "losses": losses,
        "expected": other[0],
        "norms": norms,
        "expected norms": other[1],
        "names": sorted(weights) == sorted(expected),
        "weights": max(float((weights[name] - p).abs().max()) for name, p in expected.items()),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    assert icl.published.wrapped
    dist.init_process_group("gloo")
    both = init_device_mesh("cpu", (2,))
    results = {}
    for variant in VARIANTS:
        results[variant] = apart(trained(variant, both), alone(variant))
        other = trained(variant, both, recompute=True, varlen=True)
        results[f"{variant}, varlen, recomputed"] = apart(other, alone(variant, varlen=True))
    (Path(sys.argv[1]) / f"{os.environ['RANK']}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
