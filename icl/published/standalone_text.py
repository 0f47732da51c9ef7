"""The pieces of text of which a standalone model file is put together (`icl.published.standalone`).

Each is Python as it stands in the file, with `$names` for what depends on the plan and the architecture.  Lines that
end up empty because a name is empty are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

HEAD = Template('''"""$title

$explanation

Written for the weights beside it, whose sizes are in config.json.  It needs torch and transformers alone:

    AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)

Arguments mean what they mean in transformers' LLaMA.  Attention is torch's scaled_dot_product_attention, whatever
`attn_implementation` says; with output_attentions it is computed step by step.
"""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu
from transformers import DynamicCache, GenerationMixin, PretrainedConfig, PreTrainedModel, StaticCache
$import_static
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

$constants
LOSS_ARGUMENTS = ("num_items_in_batch", "ignore_index", "shift_labels")
NOT_READ = ("cache_position",)  # generate of older versions passes it


class ${name}Config(PretrainedConfig):
    model_type = "$model_type"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(
        self,
        vocab_size=$vocab,
        hidden_size=$d,
        intermediate_size=$d_ff,
        num_hidden_layers=$layers,
        num_attention_heads=$heads,
        num_key_value_heads=$kv_heads,
        head_dim=$width,
        max_position_embeddings=$context,
        rms_norm_eps=$eps,
        rope_theta=$theta,
        initializer_range=0.02,
        tie_word_embeddings=$tied,
        use_cache=True,
        **others,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = head_dim
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        self.rope_theta = rope_theta
        self.initializer_range = initializer_range
        self.use_cache = use_cache
        super().__init__(tie_word_embeddings=tie_word_embeddings, **others)
''')

MLP = Template('''
class ${name}MLP(nn.Module):
    """A gated feed-forward network."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
''')

LAYER = Template('''
class ${name}DecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = ${name}Attention(config, layer_idx)
        self.mlp = ${name}MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x, ${first_in}rotation, visible, attentions, past_key_values=None):
        """Return the stream after this layer$and_first; arguments as for attention."""
        normed = self.input_layernorm(x)
        out$last_in = self.self_attn(normed, rotation, visible, past_key_values, attentions$last_in)
        x = x + out
        return x + self.mlp(self.post_attention_layernorm(x))$last_in
''')

DEPTH = Template('''
class DepthAttention(nn.Module):
    """A weighted sum of sources: the weights are a softmax over products of a learned query with $contents."""

    def __init__(self, config):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(config.hidden_size))
$gain
        self.eps = config.rms_norm_eps

    def forward(self, sources):
        """Return the weighted sum of sources, (batch, T, hidden_size) each."""
        exact = torch.promote_types(sources[0].dtype, torch.float32)
        stacked = torch.stack(sources).to(exact)
$keys
        weights = (keys @ $query.to(exact)).softmax(dim=0)  # (sources, batch, T)
        return (weights[..., None] * stacked).sum(dim=0).to(sources[0].dtype)


def written(sources, sublayer, out):
    """Return the sources after a sublayer's output, which $becomes."""
$write
''')
GAIN = """\
        self.gain = nn.Parameter(torch.ones(config.hidden_size))"""
NORMED_KEYS = """\
        keys = stacked * (stacked.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()"""
BARE_KEYS = """\
        keys = stacked"""
WRITE_BLOCK = """\
    if sublayer % BLOCK == 0:
        return [*sources, out]
    return [*sources[:-1], sources[-1] + out]"""
WRITE_FULL = """\
    return [*sources, out]"""

DEPTH_LAYER = Template('''
class ${name}DecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.sublayer = 2 * layer_idx  # the number of this layer's attention, from 0
        self.self_attn = ${name}Attention(config, layer_idx)
        self.mlp = ${name}MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.attention_read, self.mlp_read = DepthAttention(config), DepthAttention(config)

    def forward(self, ${first_in}rotation, visible, attentions, *sources, past_key_values=None):
        """Return ${first_first}the sources after this layer; other arguments as for attention."""
        x = self.input_layernorm(self.attention_read(sources))
        out$last_in = self.self_attn(x, rotation, visible, past_key_values, attentions$last_in)
        sources = written(sources, self.sublayer, out)
        out = self.mlp(self.post_attention_layernorm(self.mlp_read(sources)))
        sources = written(sources, self.sublayer + 1, out)
        return $returned_sources
''')

MODEL = Template('''
class ${name}PreTrainedModel(PreTrainedModel):
    config_class = ${name}Config
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["${name}DecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]

    @torch.no_grad()
    def _init_weights(self, module):
        """Set normal matrices, smaller ones where a sublayer ends, gains of 1 and biases of 0."""
        std = self.config.initializer_range
        if isinstance(module, nn.Linear | nn.Embedding):
            ends = getattr(module, "ends_sublayer", False)
            nn.init.normal_(module.weight, std=std / (2 * self.config.num_hidden_layers) ** 0.5 if ends else std)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
$init_depth


class ${name}Model(${name}PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(${name}DecoderLayer(config, i) for i in range(config.num_hidden_layers))
        for layer in self.layers:
            layer.self_attn.o_proj.ends_sublayer = layer.mlp.down_proj.ends_sublayer = True
$last_read
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        output_hidden_states=None,
        output_attentions=None,
    ):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if use_cache and past_key_values is None and not (self.gradient_checkpointing and self.training):
            past_key_values = DynamicCache()
        past = 0 if past_key_values is None else int(past_key_values.get_seq_length())
        columns = past + x.shape[1]  # of the keys that are attended over
        if isinstance(past_key_values, StaticCache):
            if transformers.__version__.startswith("4."):
                raise ValueError("past_key_values: a static cache needs transformers 5")
            columns = past_key_values.layers[0].max_cache_len
$own_heads
        visible = visible_tokens(x, past, columns, attention_mask, position_ids)
        if position_ids is None:
            position_ids = torch.arange(past, past + x.shape[1], device=x.device)[None]
        rotation, hidden_states = Rotation(self.config, position_ids), []
        attentions = [] if output_attentions else None
$through
        return BaseModelOutputWithPast(
            last_hidden_state=x,
            past_key_values=past_key_values,
            hidden_states=(*hidden_states, x) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


def visible_tokens(x, past, columns, attention_mask, position_ids):
    """Return the mask of scaled_dot_product_attention: true where a token (row) may attend to another (column).

    x: (batch, T, hidden_size), the tokens after `past` others.  None: to all before it, and to itself.
    """
    length = x.shape[1]
    if attention_mask is not None and attention_mask.dim() == 4:
        return attention_mask if attention_mask.dtype == torch.bool else attention_mask.to(x.dtype)
    column = torch.arange(columns, device=x.device)
    row = column[past : past + length]
    visible = row[:, None] >= column
$window
    if attention_mask is not None and not attention_mask.bool().all():
        # A padding token sees itself, so that no softmax is over nothing.
        real = nn.functional.pad(attention_mask.bool(), (0, columns - attention_mask.shape[1]))
        return (visible & (real[:, None, :] | (row[:, None] == column)))[:, None]
    if attention_mask is None and position_ids is not None and past == 0:
        # Positions that start again belong to another document, which nothing before it is part of.
        begins = position_ids.diff(dim=-1) != 1
        if begins.any():
            document = nn.functional.pad(begins, (1, 0)).cumsum(dim=-1)
            of_columns = nn.functional.pad(document, (0, columns - length))
            return (visible & (document[:, :, None] == of_columns[:, None, :]))[:, None]
    return $plain


class ${name}ForCausalLM(${name}PreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    accepts_loss_kwargs = True

    def __init__(self, config):
        super().__init__(config)
        self.model = ${name}Model(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: DynamicCache | StaticCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **others,
    ):
        for argument, value in others.items():
            if value is not None and value is not False and argument not in (*LOSS_ARGUMENTS, *NOT_READ):
                raise ValueError(f"{argument}: this model has no such argument")
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        output = self.model(
            input_ids,
            attention_mask,
            position_ids,
            past_key_values,
            inputs_embeds,
            use_cache,
            output_hidden_states,
            output_attentions,
        )
        rows = slice(-logits_to_keep or None, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits, loss = self.lm_head(output.last_hidden_state[:, rows]), None
        if labels is not None:
            of_loss = {argument: value for argument, value in others.items() if argument in LOSS_ARGUMENTS}
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **of_loss)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=output.past_key_values,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
        )

    @staticmethod
    def create_masks_for_generate(attention_mask=None, **_):
        """Return the mask as it is, for any cache: `visible_tokens` makes the rest."""
        return attention_mask
''')
THROUGH = Template("""\
$no_first
        for layer in self.layers:
            hidden_states.append(x)
            x$last_in = layer(x, ${first_in}rotation, visible, attentions, past_key_values=past_key_values)
        x = self.norm(x)""")
THROUGH_DEPTH = Template("""\
        sources = [x]  # the embedding, then what sublayers put out
$no_first
        for layer in self.layers:
            hidden_states.append(sources[-1])  # the newest source
$call
        x = self.norm(self.last_read(sources))""")
NO_FIRST = """\
        first_value = None  # which the first layer makes"""
LAST_READ = """\
        self.last_read = DepthAttention(config)"""
INIT_DEPTH = """\
        elif isinstance(module, DepthAttention):
            nn.init.zeros_(module.query)  # every source weighs the same"""
INIT_GAIN = """\
            nn.init.ones_(module.gain)"""
WINDOW = Template("""\
    visible = visible & (row[:, None] - column < $window)""")

PLAIN = "None if past + length == columns and length in (1, columns) else visible[None, None]"
WINDOWED = "visible[None, None]"


def filled(piece: Template, names: Mapping[str, str]) -> str:
    """Return a piece with its names replaced; a line that was a name alone, and is empty now, goes."""
    lines = []
    for line in piece.template.split("\n"):
        text = Template(line).substitute(names)
        if line.strip() and not text.strip():
            continue
        lines.append(text)
    return "\n".join(lines)
