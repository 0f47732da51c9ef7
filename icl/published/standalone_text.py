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
`attn_implementation` says.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu
from transformers import DynamicCache, GenerationMixin, PretrainedConfig, PreTrainedModel
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

ROTATION = Template('''
class Rotation:
    """Rotary positions: pairs (i, i + width / 2) of a head turn by position * theta^(-2 i / width)."""

    def __init__(self, config, position_ids):
        """position_ids: (batch, T)."""
        exact = torch.float32 if position_ids.device.type == "mps" else torch.float64
        even = torch.arange(0, config.head_dim, 2, device=position_ids.device, dtype=exact)
        rates = config.rope_theta ** (-even / config.head_dim)
$stretched
        angles = position_ids[:, None, :, None] * rates
        self.cos, self.sin = angles.cos(), angles.sin()

    def __call__(self, x):
        """x: (batch, heads, T, head_dim)."""
        exact = torch.promote_types(x.dtype, torch.float32)
        cos, sin = self.cos.to(exact), self.sin.to(exact)
        a, b = x.to(exact).chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
''')

STRETCHED = Template("""\
        # Llama 3.1's longer context: slow pairs turn $factor times slower, fast ones as before.
        turns = $former * rates / (2 * torch.pi)
        kept = ((turns - $low) / ($high - $low)).clamp(0, 1)
        rates = rates * (kept + (1 - kept) / $factor)""")

ATTENTION = Template('''
class ${name}Attention(nn.Module):
    """$attention"""

    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.head_dim = layer_idx, config.head_dim
        self.groups = config.num_attention_heads // config.num_key_value_heads
        width, kv_width = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=$bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=$bias)
$value_projection
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)
$head_norms

    def split(self, x):
        """Split into heads: (batch, T, heads * head_dim) -> (batch, heads, T, head_dim)."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x, rotation, visible, cache$last_in):
        """Return the output, (batch, T, hidden_size)$and_first.

        x: (batch, T, hidden_size); visible: true where a token may attend, (batch, 1, T, tokens so far); None: causal.
        """
        query, key = self.split(self.q_proj(x)), self.split(self.k_proj(x))
$norm_heads
        query, key = rotation(query), rotation(key)
$values
        out = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=visible,
            is_causal=visible is None and x.shape[1] > 1,
            enable_gqa=self.groups > 1,
        )
        return self.o_proj(out.transpose(1, 2).flatten(-2))$last_in
''')

HEAD_NORMS = """\
        self.q_norm = nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps)"""
NORM_HEADS = """\
        query, key = self.q_norm(query), self.k_norm(key)"""

ALL_VALUES = Template("""\
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=$bias)""")
SOME_VALUES = Template("""\
        own = config.num_key_value_heads if layer_idx == 0 else OWN_VALUE_HEADS
        self.v_proj = nn.Linear(config.hidden_size, own * config.head_dim, bias=$bias)""")
FIRST_VALUES = Template("""\
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=$bias) if layer_idx == 0 else None""")

CACHED = """\
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)"""
VALUES_OWN = f"""\
        value = self.split(self.v_proj(x))
{CACHED}"""
# Mixed before they are cached, so that no step mixes the values of earlier tokens again.
VALUES_MIXED = Template(f"""\
        value = self.split(self.v_proj(x))
        if self.layer_idx == 0:
            first_value = value
        else:
            value = $sum
{CACHED}""")
# The cache holds a layer's own heads; those of the first layer come from its entry.
VALUES_JOINED = Template(f"""\
        value = self.split(self.v_proj(x))
{CACHED}
        if self.layer_idx == 0:
            first_value = value  # of all tokens so far
        else:
            value = $sum""")
VALUES_FIRST = Template(f"""\
        value = self.split(self.v_proj(x)) if self.layer_idx == 0 else key[:, :0]  # no heads of values to cache
{CACHED}
        if self.layer_idx == 0:
            first_value = value  # of all tokens so far
        else:
            value = $sum""")

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

    def forward(self, x, ${first_in}rotation, visible, past_key_values=None):
        """Return the stream after this layer$and_first; arguments as for attention."""
        out$last_in = self.self_attn(self.input_layernorm(x), rotation, visible, past_key_values$last_in)
        x = x + out
        return x + self.mlp(self.post_attention_layernorm(x))$last_in
''')

DEPTH = Template('''
class DepthAttention(nn.Module):
    """What one sublayer reads: a softmax over sources, by a learned query and their RMS-normed contents."""

    def __init__(self, config):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(config.hidden_size))
$gain
        self.eps = config.rms_norm_eps

    def forward(self, sources):
        """sources: some of (batch, T, hidden_size) -> their weighted sum."""
        exact = torch.promote_types(sources[0].dtype, torch.float32)
        stacked = torch.stack(sources).to(exact)
$keys
        weights = (keys @ $query.to(exact)).softmax(dim=0)  # (sources, batch, T)
        return (weights[..., None] * stacked).sum(dim=0).to(sources[0].dtype)


def written(sources, sublayer, out):
    """Return the sources after a sublayer's output: it opens a new source, or is added to the newest one."""
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

    def forward(self, ${first_in}rotation, visible, *sources, past_key_values=None):
        """Return ${first_first}the sources after this layer; other arguments as for attention."""
        x = self.input_layernorm(self.attention_read(sources))
        out$last_in = self.self_attn(x, rotation, visible, past_key_values$last_in)
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
    ):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if use_cache and past_key_values is None and not (self.gradient_checkpointing and self.training):
            past_key_values = DynamicCache()
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        visible = visible_tokens(x, past, attention_mask, position_ids)
        if position_ids is None:
            position_ids = torch.arange(past, past + x.shape[1], device=x.device)[None]
        rotation, hidden_states = Rotation(self.config, position_ids), []
$through
        return BaseModelOutputWithPast(
            last_hidden_state=x,
            past_key_values=past_key_values,
            hidden_states=(*hidden_states, x) if output_hidden_states else None,
        )


def visible_tokens(x, past, attention_mask, position_ids):
    """Return the mask of scaled_dot_product_attention: true where a token (row) may attend to another (column).

    x: (batch, T, hidden_size), the tokens after `past` others.  None: to all before it, and to itself.
    """
    length = x.shape[1]
    if attention_mask is not None and attention_mask.dim() == 4:
        return attention_mask if attention_mask.dtype == torch.bool else attention_mask.to(x.dtype)
    column = torch.arange(past + length, device=x.device)
    row = column[past:]
    visible = row[:, None] >= column
$window
    if attention_mask is not None and not attention_mask.bool().all():
        # A padding token sees itself, so that no softmax is over nothing.
        real = attention_mask[:, None, :].bool() | (row[:, None] == column)
        return (visible & real)[:, None]
    if attention_mask is None and position_ids is not None and past == 0:
        # Positions that start again belong to another document, which nothing before it is part of.
        begins = position_ids.diff(dim=-1) != 1
        if begins.any():
            document = nn.functional.pad(begins, (1, 0)).cumsum(dim=-1)
            return (visible & (document[:, :, None] == document[:, None, :]))[:, None]
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
        past_key_values: DynamicCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        **others,
    ):
        for argument, value in others.items():
            if value is not None and value is not False and argument not in (*LOSS_ARGUMENTS, *NOT_READ):
                raise ValueError(f"{argument}: this model has no such argument")
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        output = self.model(
            input_ids,
            attention_mask,
            position_ids,
            past_key_values,
            inputs_embeds,
            use_cache,
            output_hidden_states,
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
        )
''')
THROUGH = Template("""\
$no_first
        for layer in self.layers:
            hidden_states.append(x)
            x$last_in = layer(x, ${first_in}rotation, visible, past_key_values=past_key_values)
        x = self.norm(x)""")
THROUGH_DEPTH = Template("""\
        sources = [x]  # the embedding, then what sublayers put out
$no_first
        for layer in self.layers:
            hidden_states.append(sources[-1])
            $first_and_sources = layer(${first_in}rotation, visible, *sources, past_key_values=past_key_values)
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

PLAIN = "None if past == 0 or length == 1 else visible[None, None]"
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
