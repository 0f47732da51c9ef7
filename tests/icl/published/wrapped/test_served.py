"""Models behind an attention function that keeps keys and values by layer itself, as vLLM and SGLang do it.

The server here does what their transformers backends do to a model, step by step (FRAMEWORKS.md lists where): base
model on meta, modules replaced, embeddings set, weights by name, one row of new tokens of several sequences.
"""

import re

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from icl.published import own
from tests.icl.published.wrapped.small import CONFIGS, VOCAB, close, decoder, sizes_and_plan, tokens, wrapped

transformers = pytest.importorskip("transformers")
published = pytest.importorskip("icl.published.wrapped")
backbone = pytest.importorskip("icl.published.wrapped.backbone")

SERVED = [name for name in CONFIGS if not [*backbone.problems(*sizes_and_plan(name))]]
LEFT = {
    "dva": "revised",
    "shifted-values": "tokens before",
    "differential": "pairs of heads",
    "latent skipv1": "latent",
    "window skipv1": "windows",
    "window skipv1:sink=1": "windows",
    "windows shifted-values": "windows",
    "some-windows vanilla": "windows",
    "bias shifted-values": "biases",
}
TEXTS = {"a": tokens(1, 11, seed=4)[0], "b": tokens(1, 7, seed=5)[0], "c": tokens(1, 9, seed=6)[0]}
STEPS = [{"a": 4, "b": 1}, {"a": 1, "b": 1, "c": 5}, {"b": 5, "a": 3}, {"c": 4, "a": 3}]  # new tokens of each text


class Pages:
    """The attention of one layer: keys and values of every text, which new tokens are added to."""

    def __init__(self):
        self.kept = {}

    def forward(self, query, key, value, places):
        """Attend, by (tokens, heads, width); `places` is the text of each token."""
        out = torch.empty_like(query)
        for text in dict.fromkeys(places):
            rows = [i for i, name in enumerate(places) if name == text]
            before = self.kept.get(text, (key[:0], value[:0]))
            keys, values = (torch.cat([x, y[rows]]) for x, y in zip(before, (key, value), strict=True))
            self.kept[text] = keys, values
            group = query.shape[1] // keys.shape[1]
            scores = torch.einsum("qhw,khw->hqk", query[rows], keys.repeat_interleave(group, 1))
            new, every = len(rows), len(keys)
            later = torch.arange(every)[None] > torch.arange(every - new, every)[:, None]
            shares = (scores * self.scale).masked_fill(later, -torch.inf).softmax(-1)
            out[rows] = torch.einsum("hqk,khw->qhw", shares, values.repeat_interleave(group, 1))
        return out


def pages(module, query, key, value, attention_mask, scaling=None, attention_instances=None, places=None, **_):
    """The function that a server registers; its answer is flat, (tokens, heads * width)."""
    assert attention_mask is None
    instance = attention_instances[module.layer_idx]
    instance.scale = scaling
    flat = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
    return instance.forward(*flat, places).flatten(1), None


class Replicated(nn.Module):
    """A linear map of a server's own, of which only calls are promised."""

    def __init__(self, linear):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(linear.out_features, linear.in_features))
        self.bias = nn.Parameter(torch.empty(linear.out_features)) if linear.bias is not None else None

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


def replace_linears(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Replicated(child))
        else:
            replace_linears(child)


class Server:
    """What vLLM's `TransformersForCausalLM` does with a folder."""

    def __init__(self, folder):
        transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.register("pages", pages)
        config = transformers.AutoConfig.from_pretrained(folder)
        config._attn_implementation = "pages"
        with torch.device("meta"):
            self.model = transformers.AutoModel.from_config(config)
        assert type(self.model).is_backend_compatible()
        assert type(self.model.get_decoder()) is type(self.model)
        replace_linears(self.model)
        self.model.set_input_embeddings(nn.Embedding(config.vocab_size, config.hidden_size, device="meta"))
        self.model.to_empty(device="cpu")
        self.head = None if config.tie_word_embeddings else nn.Parameter(torch.empty(VOCAB, config.hidden_size))
        self.load(load_file(folder / "model.safetensors"))
        self.layers = {i: Pages() for i in range(config.num_hidden_layers)}
        self.lengths = dict.fromkeys(TEXTS, 0)

    def load(self, weights):
        """Fill parameters by the names that vLLM makes of a checkpoint's: every one of both, once."""
        mapping = transformers.conversion_mapping.get_model_conversion_mapping(self.model)
        children = "|".join(name for name, _ in self.model.named_children())
        there = {f"model.{name}": p for name, p in self.model.named_parameters()} | {"lm_head.weight": self.head}
        for own_name, tensor in weights.items():
            name = own_name
            for renaming in mapping:
                name, _ = renaming.rename_source_key(name)
            name = re.sub(rf"^(?!model\.)(({children}).*)", r"model.\1", name)
            there.pop(name).data.copy_(tensor)
        assert set(there) <= {"lm_head.weight"}
        assert self.head is None or "lm_head.weight" not in there

    @torch.no_grad()
    def step(self, new):
        """The scores after each text's new tokens, all of which go through the model in one row."""
        ids, positions, places = [], [], []
        for text, count in new.items():
            start = self.lengths[text]
            ids += TEXTS[text][start : start + count].tolist()
            positions += range(start, start + count)
            places += [text] * count
            self.lengths[text] += count
        states = self.model(
            input_ids=torch.tensor([ids]),
            inputs_embeds=None,
            use_cache=False,
            position_ids=torch.tensor([positions]),
            attention_instances=self.layers,
            places=places,
            return_dict=False,
        )[0][0]
        weight = self.model.get_input_embeddings().weight if self.head is None else self.head
        scores = states @ weight.T
        return {text: scores[[i for i, x in enumerate(places) if x == text]] for text in new}


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_several_texts_in_one_row_get_the_decoder_s_scores(name, tmp_path):
    ours = decoder(name)
    own.save(ours, tmp_path / "model")
    server, found = Server(tmp_path / "model"), {text: [] for text in TEXTS}
    for new in STEPS:
        for text, scores in server.step(new).items():
            found[text].append(scores)
    for text, ids in TEXTS.items():
        with torch.no_grad():
            close(torch.cat(found[text]), ours(ids[None])[0])
    kept = server.layers[0].kept["a"]
    assert kept[0].shape[1] == ours.config.kv_heads


def test_every_plan_is_served_or_refused_by_name():
    assert set(SERVED) | set(LEFT) == set(CONFIGS)
    assert {"vanilla", "skipv1", "resformer-learned", "svformer+mqa", "attnres-block", "yoco", "mhc"} <= set(SERVED)
    for name, says in LEFT.items():
        config = wrapped(decoder(name)).config
        config._attn_implementation = "pages"
        transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.register("pages", pages)
        with pytest.raises(ValueError, match=f"^attn_implementation: .*{says}"):
            transformers.AutoModel.from_config(config)


@pytest.mark.parametrize("name", CONFIGS)
def test_without_a_server_the_states_are_the_decoder_s(name, tmp_path):
    ours = decoder(name)
    wrapped(ours).save_pretrained(tmp_path)
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        close(model(tokens()).last_hidden_state, ours.hidden(tokens()))
        close(model(tokens(), return_dict=False)[0], ours.hidden(tokens()))


def test_what_the_model_without_its_head_cannot_do_is_refused():
    config = wrapped(decoder("skipv1")).config
    model = transformers.AutoModel.from_config(config)
    for arguments, says in (
        ({"use_cache": True}, "use_cache"),
        ({"past_key_values": transformers.DynamicCache()}, "past_key_values"),
        ({"output_attentions": True}, "output_attentions"),
    ):
        with pytest.raises(ValueError, match=says):
            model(tokens(), **arguments)
