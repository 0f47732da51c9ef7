"""What a standalone folder answers in a process that cannot import this project: run as `alone.py FOLDER ...`.

Each folder gets its answers as `answers.pt`."""

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path


class Refusing(MetaPathFinder):
    """This project cannot be imported, wherever it is installed."""

    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("icl", "theory", "experiments", "tests"):
            raise ImportError(f"{name} is not there")


sys.meta_path.insert(0, Refusing())

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache  # noqa: E402

PADS, ROOM = 3, 20
STATIC = not transformers.__version__.startswith("4.")  # static caches need version 5


def read(folder):
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=torch.float64).eval()


def cached(model, tokens, cache=None):
    """Logits of five tokens at once, then two, then of one after another, and the bytes of the cache."""
    out = model(tokens[:, :5], use_cache=True, past_key_values=cache)
    logits = [out.logits]
    out = model(tokens[:, 5:7], past_key_values=out.past_key_values, use_cache=True)
    logits.append(out.logits)
    for i in range(7, tokens.shape[1]):
        out = model(tokens[:, i : i + 1], past_key_values=out.past_key_values, use_cache=True)
        logits.append(out.logits)
    layers = out.past_key_values.layers
    return torch.cat(logits, dim=1), sum(x.numel() * x.element_size() for y in layers for x in (y.keys, y.values))


def gradients(model, tokens):
    model.zero_grad()
    loss = model(tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def recomputed(model, tokens, **options):
    """The gradients with activation checkpointing, and how often the first network ran."""
    calls = []
    hook = model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    found = gradients(model, tokens)
    model.gradient_checkpointing_disable()
    model.eval()
    hook.remove()
    return found, len(calls)


def fresh(config, seed):
    torch.manual_seed(seed)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    model = model.to_empty(device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(float("nan"))
    for module in model.modules():
        if hasattr(module, "_is_hf_initialized"):
            module._is_hf_initialized = False
    model.init_weights()
    return {name: p.detach() for name, p in model.named_parameters()}


def refused(model, tokens, **arguments):
    try:
        model(tokens, **arguments)
    except ValueError as error:
        return str(error)
    return None


def answers(folder):
    model, tokens = read(folder), torch.load(folder / "tokens.pt")
    found = {"whole": model(tokens).logits.detach()}
    with torch.no_grad():
        found["cached"], found["bytes"] = cached(model, tokens)
        static = StaticCache(config=model.config, max_cache_len=ROOM)
        if STATIC:
            found["static"], found["static bytes"] = cached(model, tokens, static)
        else:
            found["static"] = refused(model, tokens, past_key_values=static)
        attended = model(tokens, output_attentions=True)
        found["attended"], found["weights"] = attended.logits, torch.stack(attended.attentions)
        last = model(tokens[:, :-1], use_cache=True).past_key_values
        last = model(tokens[:, -1:], past_key_values=last, output_attentions=True).attentions
        found["last weights"] = torch.stack(last)
        mask = torch.ones(tokens.shape[0], tokens.shape[1] + PADS, dtype=torch.long)
        mask[:, :PADS] = 0
        padded = torch.nn.functional.pad(tokens, (PADS, 0))
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        found["padded"] = model(padded, attention_mask=mask, position_ids=places).logits[:, PADS:]
        shown = model(padded, attention_mask=mask, position_ids=places, output_attentions=True)
        found["padded, attended"] = shown.logits[:, PADS:]
        packed, starts = tokens.flatten()[None], torch.arange(tokens.shape[1]).repeat(len(tokens))[None]
        found["packed"] = model(packed, position_ids=starts).logits.view_as(found["whole"])
        found["embedded"] = model(inputs_embeds=model.get_input_embeddings()(tokens)).logits
        found["last"] = model(tokens, logits_to_keep=2).logits
        found["states"] = len(model(tokens, output_hidden_states=True).hidden_states)
        found["tuple"] = model(tokens, return_dict=False)[0]
        options = {"max_new_tokens": 6, "pad_token_id": 0, "do_sample": False, "attention_mask": mask[:, -7:]}
        found["generated"] = model.generate(tokens[:, :7], **options)
        found["generated without"] = model.generate(tokens[:, :7], use_cache=False, **options)
        fixed = {"cache_implementation": "static"} if STATIC else {}
        found["generated static"] = model.generate(tokens[:, :7], **fixed, **options)
        several = torch.cat([options["attention_mask"].new_zeros(len(tokens), PADS), options["attention_mask"]], dim=1)
        options["attention_mask"] = several
        behind = torch.nn.functional.pad(tokens[:, :7], (PADS, 0))
        found["generated behind pads"] = [model.generate(behind, **options, **more)[:, PADS:] for more in ({}, fixed)]
        options["attention_mask"] = mask[:, -7:]
        found["beams"] = model.generate(tokens[:, :7], num_beams=3, **options)
        found["beams without"] = model.generate(tokens[:, :7], num_beams=3, use_cache=False, **options)
    found["loss"] = model(tokens, labels=tokens).loss.detach()
    found["gradients"] = gradients(model, tokens)
    found["recomputed"] = recomputed(model, tokens, use_reentrant=False)
    found["reentrant"] = recomputed(model, tokens, use_reentrant=True)
    found["refused"] = refused(model, tokens, head_mask=torch.ones(1))
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    found["fresh"] = [fresh(config, seed) for seed in (0, 0, 1)]
    model.save_pretrained(folder / "again")
    found["again"] = read(folder / "again")(tokens).logits.detach()
    return found


for place in sys.argv[1:]:
    torch.save(answers(Path(place)), Path(place) / "answers.pt")
assert not {"icl", "theory", "experiments"} & sys.modules.keys()
