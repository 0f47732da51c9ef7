"""Weights of models that transformers makes: the decoder's own law, from torch's seed, also after meta and sharding."""

from dataclasses import asdict

import pytest
import torch
from torch import nn

from icl.models.decoder import Decoder
from tests.icl.published.wrapped.small import CONFIG, decoder, every_plan, sizes_and_plan, wrapped
from theory.plans.written import to_json

published = pytest.importorskip("icl.published.wrapped")
CrosslayerConfig, CrosslayerForCausalLM = published.CrosslayerConfig, published.CrosslayerForCausalLM


def config_of(name):
    sizes, plan = sizes_and_plan(name)
    return CrosslayerConfig(asdict(sizes), to_json(plan))


def from_meta(config, seed):
    """The sequence of training frameworks: made on meta, given memory, which holds anything, and initialised."""
    with torch.device("meta"):
        model = CrosslayerForCausalLM(config)
    assert all(p.is_meta for p in model.parameters())
    model.to_empty(device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(float("nan"))
    torch.manual_seed(seed)
    model.post_init()
    return model


def drawn(seed):
    """The number that a model draws from torch's generator."""
    torch.manual_seed(seed)
    return int(torch.randint(2**62, ()))


def equal(model, other):
    return [torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True)]


@every_plan
def test_after_meta_every_parameter_is_the_decoder_s_own(name):
    config = config_of(name)
    model = from_meta(config, 3)
    assert not [n for n, p in model.named_parameters() if not bool(p.isfinite().all())]
    sizes, plan = sizes_and_plan(name)
    assert all(equal(model.decoder, Decoder(sizes, plan, seed=drawn(3))))
    assert all(equal(model, from_meta(config, 3)))
    torch.manual_seed(3)
    assert all(equal(model, CrosslayerForCausalLM(config)))
    assert not all(equal(model, from_meta(config, 4)))


def test_models_that_are_made_one_after_the_other_differ():
    torch.manual_seed(0)
    one, other = (CrosslayerForCausalLM(config_of("skipv1")) for _ in range(2))
    assert not torch.equal(one.get_input_embeddings().weight, other.get_input_embeddings().weight)


def test_variants_start_alike_where_they_agree():
    one, other = (from_meta(config_of(name), 5).decoder for name in ("vanilla", "skipv1"))
    for part in (
        "stem.embedding.weight",
        "layers.1.attention.projections.key.weight",
        "layers.2.feed_forward.up.weight",
    ):
        assert torch.equal(one.get_parameter(part), other.get_parameter(part))


def test_the_deviation_is_the_config_s():
    config = config_of("vanilla")
    config.initializer_range = 0.5
    model = from_meta(config, 0)
    assert all(equal(model.decoder, Decoder(*sizes_and_plan("vanilla"), seed=drawn(0), std=0.5)))


def test_loading_draws_nothing_and_leaves_what_is_saved(tmp_path):
    ours = wrapped(decoder("skipv1"))
    ours.save_pretrained(tmp_path)
    before = torch.get_rng_state()
    loaded = CrosslayerForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(before, torch.get_rng_state())
    assert all(equal(loaded, ours))
    loaded.init_weights()
    assert all(equal(loaded, ours))


def test_a_missing_weight_alone_is_initialised(tmp_path):
    ours = wrapped(decoder("skipv1"))
    ours.save_pretrained(tmp_path, state_dict={n: p for n, p in ours.state_dict().items() if "norm.weight" not in n})
    loaded = CrosslayerForCausalLM.from_pretrained(tmp_path)
    for name, parameter in loaded.named_parameters():
        expected = torch.ones_like(parameter) if "norm.weight" in name else ours.get_parameter(name)
        assert torch.equal(parameter, expected), name


def test_sharded_parameters_are_parts_of_the_whole():
    from torch.distributed import HashStore, destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    init_process_group("gloo", rank=0, world_size=1, store=HashStore())
    try:
        with torch.device("meta"):
            model = CrosslayerForCausalLM(config_of("skipv1"))
        mesh = init_device_mesh("cpu", (1,))
        for module in (*model.decoder.sublayers, model):
            fully_shard(module, mesh=mesh)
        model.to_empty(device="cpu")
        torch.manual_seed(3)
        model.post_init()
        whole = Decoder(*sizes_and_plan("skipv1"), seed=drawn(3))
        for name, parameter in whole.named_parameters():
            assert torch.equal(model.decoder.get_parameter(name).full_tensor(), parameter)
    finally:
        destroy_process_group()


def test_modules_of_others_start_as_transformers_starts_them():
    model = wrapped(decoder("vanilla"))
    new = nn.Embedding(1000, 24)
    model._init_weights(new)
    assert (
        abs(float(new.weight.detach().std()) / model.config.initializer_range - 1) < 5 / (2 * new.weight.numel()) ** 0.5
    )
    assert CONFIG.d_model == 24
