"""The pieces of text of which attention is put together in a standalone model file (`icl.published.standalone`).

They are filled as those of `icl.published.standalone_text`.
"""

from __future__ import annotations

from string import Template

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

    def forward(self, x, rotation, visible, cache, attentions$last_in):
        """Return the output, (batch, T, hidden_size)$and_first.

        x: (batch, T, hidden_size)
        visible: true where a token may attend, (batch, 1, T, tokens so far); None: causal
        attentions: a list that gets the weights, (batch, heads, T, tokens so far); None: nobody asks for them
        """
        query, key = self.split(self.q_proj(x)), self.split(self.k_proj(x))
$norm_heads
        query, key = rotation(query), rotation(key)
$values
        if attentions is None:
            causal = visible is None and x.shape[1] > 1
            out = scaled_dot_product_attention(query, key, value, visible, is_causal=causal, enable_gqa=self.groups > 1)
        else:
            attentions.append(attention_weights(query, key.repeat_interleave(self.groups, dim=1), visible))
            out = attentions[-1] @ value.repeat_interleave(self.groups, dim=1)
        return self.o_proj(out.transpose(1, 2).flatten(-2))$last_in


def attention_weights(query, key, visible):
    """Return the weights of attention, (batch, heads, T, tokens so far).

    query: (batch, heads, T, head_dim); key: (batch, heads, tokens so far, head_dim); visible: as in forward
    """
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if visible is None:
        visible = torch.ones_like(scores, dtype=torch.bool).tril(scores.shape[-1] - scores.shape[-2])
    scores = scores.masked_fill(~visible, float("-inf")) if visible.dtype == torch.bool else scores + visible
    return scores.softmax(dim=-1)
''')

# A static cache would give values as many heads as keys.
STATIC_LAYER = Template('''
class OwnHeads(StaticLayer):
    """A layer of a static cache whose values have other heads than its keys: those that the model's layer projects."""

    def lazy_initialization(self, key_states, value_states):
        super().lazy_initialization(key_states, value_states)
        batch, heads, _, width = value_states.shape
        self.values = value_states.new_zeros(batch, heads, self.max_cache_len, width)
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

IMPORT_STATIC = """\
from transformers.cache_utils import StaticLayer"""
OWN_HEADS = """\
            for i, layer in enumerate(past_key_values.layers):
                if type(layer) is StaticLayer and not layer.is_initialized:
                    past_key_values.layers[i] = OwnHeads(layer.max_cache_len)"""
