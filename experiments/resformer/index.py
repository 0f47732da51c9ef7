"""ResFormer's paper, line by line: what stands where, in our words, and which ledger entries judge it.

Every numbered equation, table and figure, and every statement of the text and the appendix that can be right or wrong,
in the order of the text.  V_n, A_n, U_n are the values, attention and output of layer n, of l tokens.  What no entry
judges stands in `NOT_JUDGED`, with the reason.
"""

from __future__ import annotations

from experiments.ledger.overview import Index, Item

ITEMS = (
    # What the paper says that it shows
    Item("abstract, concentration", "Stacked attention layers lead to concentration.", ("resformer.concentration",)),
    Item("abstract, cost", "Cross-layer attention is expensive.", ("resformer.eqn2-cost",)),
    Item(
        "abstract, approximation",
        "A residual from layer 1's values to all later ones approximates cross-layer attention.",
        ("resformer.eqns-3-5", "resformer.gate", "resformer.block-form-sharp", "resformer.block-form-mean"),
    ),
    Item("abstract, cache", "SVFormer saves nearly half of the cache.", ("resformer.svformer-cache",)),
    Item(
        "abstract, effects",
        "ResFormer concentrates less in deeper layers and represents more in most.",
        ("resformer.concentration", "resformer.fig-12"),
    ),
    Item(
        "abstract, results",
        "It is better than vanilla, DenseFormer and NeuTRENO, in training and on tasks.",
        ("resformer.loss", "resformer.table-1"),
    ),
    Item("abstract, sinks", "It lessens sinks by preventing drained values.", ("resformer.sinks",)),
    Item(
        "abstract, SVFormer",
        "SVFormer trains much faster than vanilla and does better than GQA and CLA; length and summed rate matter.",
        ("resformer.fig-14", "resformer.fig-13-cache", "resformer.svformer-rate", "resformer.svformer-length"),
    ),
    # 1: introduction
    Item("section 1, deep vision models", "32 layers may do worse than 24 in a vision Transformer.", ()),
    Item(
        "section 1, over-smoothing",
        "Attention smooths, so that tokens become the same as depth grows.",
        ("resformer.smoothing", "resformer.smoothing-any-layers"),
    ),
    Item(
        "section 1, NeuTRENO",
        "Adding the difference of layer 1's and the layer's values to the output lessens over-smoothing.",
        ("resformer.neutreno-depth", "resformer.neutreno-eqn8"),
    ),
    Item("section 1, Fig. 1 (left)", "Training losses of variants minus vanilla's, at 82M.", ("resformer.loss",)),
    Item(
        "section 1, Fig. 1 (middle)",
        "Vanilla's entropy falls in deeper layers, ResFormer's stays.",
        ("resformer.concentration",),
    ),
    Item(
        "section 1, Fig. 1 (right)",
        "In Llama and Mistral attention is concentrated, dispersed and concentrated again; it increasingly focuses.",
        ("resformer.concentration",),
    ),
    Item("section 1, entropy", "Lower entropy is more concentration.", ("resformer.eqn11-sign",)),
    Item(
        "section 1, SVFormer",
        "It saves nearly half of the cache, also together with GQA, and gains with longer sequences.",
        ("resformer.svformer-cache", "resformer.fig-13-cache", "resformer.fig-14", "resformer.svformer-length"),
    ),
    Item("section 1, all settings", "ResFormer wins in all settings.", ("resformer.loss", "resformer.table-5")),
    # 2: related work
    Item(
        "section 2.1, Fig. 2",
        "Five models of three layers: NeuTRENO subtracts, DenseFormer adds outputs, SVFormer shares V_1.",
        ("resformer.neutreno-eqn8", "resformer.eqn9-denseformer", "resformer.effective-depth"),
    ),
    Item("section 2.1, depth", "Gains from depth shrink as depth grows.", ()),
    Item(
        "section 2.1, low-pass filter",
        "Self-attention is a low-pass filter over tokens.",
        ("resformer.smoothing", "resformer.smoothing-any-layers"),
    ),
    Item(
        "section 2.1, no hyper-parameters",
        "ResFormer has none to choose.",
        ("resformer.fig-6", "resformer.weights-absorbed"),
    ),
    Item("section 2.2, other methods", "What methods that compress caches do, by their papers.", ()),
    Item("section 2.2, the first", "SVFormer is the first to free values from queries and keys.", ()),
    Item("section 2.2, GQA", "SVFormer goes with GQA.", ("resformer.fig-13-cache",)),
    # 3.1: cross-layer attention
    Item(
        "section 3.1, Eqn. (1)",
        "Softmax attention of one layer.",
        ("resformer.eqns-3-5", "resformer.gate", "resformer.eqn1-scale"),
    ),
    Item(
        "section 3.1, poor layers",
        "Cross-layer attention gives layers of low quality little weight.",
        ("resformer.low-quality",),
    ),
    Item(
        "section 3.1, Eqn. (2)",
        "One softmax over the keys of layers n and m, for the values of both.",
        ("resformer.gate", "resformer.eqn2-cost"),
    ),
    Item("section 3.1, after Eqn. (2)", "It nearly doubles the model's complexity.", ("resformer.eqn2-cost",)),
    # 3.2: the block form
    Item(
        "section 3.2, Eqn. (3)",
        "K_n in the place of K_m is nearly the same.",
        ("resformer.block-form-sharp", "resformer.block-form-mean", "resformer.gate", "resformer.linear-distance"),
    ),
    Item("section 3.2, Eqn. (4)", "Then the output is A_n (V_n + V_m) / 2.", ("resformer.eqns-3-5",)),
    Item(
        "section 3.2, after Eqn. (4)",
        "The increase in computation is minimal.",
        ("resformer.eqn4-cost", "resformer.costs"),
    ),
    Item("section 3.2, Eqn. (5)", "For all layers, A_n times the mean of the values.", ("resformer.eqns-3-5",)),
    Item(
        "section 3.2, after Eqn. (5)",
        "This projects values into the current layer's embedding space.",
        ("resformer.embedding-space",),
    ),
    Item(
        "section 3.2, Eqn. (6)",
        "The naive mapping: the mean of earlier values is added to A_n V_n.",
        ("resformer.eqn6-mapping",),
    ),
    Item(
        "section 3.2, Fig. 3",
        "Eqn. (3) is nearer to Eqn. (2) than Eqn. (6) is, in a trained model.",
        ("resformer.fig-3", "resformer.eqn6-mapping"),
    ),
    # 3.3: ResFormer
    Item(
        "section 3.3, why layer 1",
        "Layer 1 has all basic information, and its attention is dispersed.",
        ("resformer.fig-9", "resformer.concentration"),
    ),
    Item(
        "section 3.3, Eqn. (7)",
        "U_n = A_n (V_n + V_1) / 2 from layer 2 on.",
        ("resformer.weights-absorbed", "resformer.smoothing", "resformer.block-form-better", "toy.resformer-head"),
    ),
    Item("section 3.3, residual mapping", "The model learns a residual mapping explicitly.", ()),
    # 3.4: NeuTRENO and DenseFormer
    Item(
        "section 3.4, Eqn. (8)",
        "NeuTRENO is (A_n - lambda J) V_n + lambda V_1, J a matrix of ones.",
        ("resformer.neutreno-eqn8", "resformer.neutreno-depth"),
    ),
    Item(
        "section 3.4, after Eqn. (8)",
        "The term lambda J may harm the learning of the attention.",
        ("resformer.neutreno-lambda",),
    ),
    Item(
        "section 3.4, Eqn. (9)",
        "DenseFormer is a sum of alpha_i A_i V_i with hyper-parameters alpha_i.",
        ("resformer.eqn9-denseformer",),
    ),
    Item(
        "section 3.4, after Eqn. (9)",
        "It maps values by their own layers' attention, unlike Eqn. (3).",
        ("resformer.eqn9-denseformer",),
    ),
    # 3.5: SVFormer
    Item(
        "section 3.5, Eqn. (10)",
        "SVFormer: U_n = A_n V_1.",
        ("resformer.svformer-cache", "resformer.effective-depth", "resformer.weights-absorbed"),
    ),
    Item(
        "section 3.5, after Eqn. (10)",
        "It computes and stores values of layer 1 only, nearly half of the cache less.",
        ("resformer.svformer-cache",),
    ),
    Item(
        "section 3.5, Fig. 4",
        "Over every two layers, sharing values costs less loss than sharing keys.",
        ("resformer.values-or-keys",),
    ),
    # 4.1: setting
    Item(
        "section 4.1.1, data and batches",
        "Nearly 20B tokens of seven domains; 2M tokens a batch, 10,000 steps.",
        ("resformer.data-size", "resformer.one-epoch"),
    ),
    Item("section 4.1.1, warm-up", "1,200 steps of warm-up, decay to a tenth.", ("resformer.table-4",)),
    Item("section 4.1.1, precision", "Training is in FP16.", ("resformer.precision",)),
    Item("section 4.1.2, one epoch", "All models are trained for one epoch.", ("resformer.one-epoch",)),
    Item(
        "section 4.1.3, importance",
        "A token's importance is (1/l) sum_j A_ij.",
        ("resformer.eqn11-sum",),
    ),
    Item(
        "section 4.1.3, Eqn. (11)",
        "The entropy of the importance, normalised.",
        ("resformer.eqn11-sum", "resformer.entropy-of-uniform"),
    ),
    Item("section 4.1.3, after Eqn. (11)", "The higher it is, the more clustered.", ("resformer.eqn11-sign",)),
    Item("section 4.1.4, transfer", "Eigenvectors of large eigenvalues transfer better.", ()),
    Item(
        "section 4.1.4, Eqn. (12)",
        "The spectrum of the mean of v v^T.",
        ("resformer.eqn12-index", "resformer.values-at-start", "resformer.values-at-start-limit"),
    ),
    # 4.2: against vanilla
    Item("section 4.2, Fig. 5 (left)", "ResFormer wins at every length, at 82M.", ("resformer.loss",)),
    Item(
        "section 4.2, Fig. 5 (middle)",
        "Final losses by size, with fitted curves.",
        ("resformer.table-5-gains", "resformer.table-5"),
    ),
    Item("section 4.2, Fig. 5 (right)", "It wins throughout training at every size.", ("resformer.loss",)),
    Item(
        "section 4.2, with NeuTRENO",
        "ResFormer beats DenseFormer and NeuTRENO, and gains from NeuTRENO on top.",
        ("resformer.loss",),
    ),
    Item(
        "section 4.2, Fig. 6",
        "A_n (V_n + lambda V_1) beats vanilla at every lambda, is the better the larger lambda, and best at 2.",
        ("resformer.fig-6", "resformer.weights-absorbed"),
    ),
    # 4.3: ablations
    Item(
        "section 4.3, Fig. 7",
        "Residuals help on values only, not on queries or keys.",
        ("resformer.fig-7", "resformer.what-is-carried"),
    ),
    Item(
        "section 4.3, the two mappings",
        "Eqn. (2) maps by the gold attention, Eqn. (6) by a matrix of ones.",
        ("resformer.eqn6-mapping",),
    ),
    Item(
        "section 4.3, Fig. 8",
        "The identity mapping does poorly, in line with Fig. 3.",
        ("resformer.figs-3-and-8", "resformer.eqn6-mapping"),
    ),
    Item(
        "section 4.3, current and gold attention",
        "The current attention ends below the gold one.",
        (
            "resformer.block-form-better",
            "resformer.figs-3-and-8",
            "resformer.linear-distance",
            "resformer.cross-layer-any-w0",
            "resformer.cross-layer-full-rank",
            "resformer.cross-layer-best-constant",
            "resformer.cross-layer-around-identity",
            "resformer.cross-layer-needs-the-term",
        ),
    ),
    Item(
        "section 4.3, Fig. 9",
        "The residual has to come from layer 1; other layers may dilute it.",
        ("resformer.fig-9", "resformer.source-layer"),
    ),
    # 4.4 and 4.5: tasks, representations
    Item(
        "section 4.4, Table 1",
        "Zero-shot accuracies: nearly 3 % more in the mean.",
        ("resformer.table-1", "resformer.table-1-guessing", "resformer.table-1-spread"),
    ),
    Item(
        "section 4.5, Fig. 12",
        "Most layers' values have larger eigenvalues, and so represent more.",
        ("resformer.fig-12", "resformer.values-at-start", "resformer.values-at-start-limit"),
    ),
    Item(
        "section 4.5, on Fig. 1 (middle)",
        "Clustering grows with depth in vanilla, less in ResFormer.",
        ("resformer.concentration",),
    ),
    Item(
        "section 4.5, Fig. 10",
        "The first token's importance, values and hidden states: sinks, drains and peaks are weaker.",
        ("resformer.sinks",),
    ),
    Item("section 4.5, Fig. 11", "Importance over tokens, layer by layer.", ("resformer.sinks",)),
    Item(
        "section 4.5, the mechanism",
        "The shortcut breaks the mutual reinforcement of sinks and drains, by preventing drains.",
        ("resformer.sinks",),
    ),
    # 4.6 to 4.8: SVFormer
    Item(
        "section 4.6, Fig. 13 (left)",
        "At nearly half of the cache and 64,000 tokens SVFormer ends below CLA and GQA; at 2,048 above GQA.",
        ("resformer.fig-14", "resformer.fig-13-cache"),
    ),
    Item(
        "section 4.6, Fig. 13 (right)",
        "The same at nearly an eighth, with GQA.",
        ("resformer.fig-14", "resformer.fig-13-cache"),
    ),
    Item(
        "section 4.6, Fig. 14 (left)",
        "Vanilla always passes SVFormer in the end, the later the longer the sequences.",
        ("resformer.fig-14", "resformer.svformer-length"),
    ),
    Item(
        "section 4.6, Fig. 14 (right)",
        "The crossing moves exponentially with the length.",
        ("resformer.svformer-length",),
    ),
    Item(
        "section 4.6, the reason",
        "The first layer's value matrix grows with the length and is hard to optimise.",
        ("resformer.svformer-value-matrix",),
    ),
    Item(
        "section 4.7, Fig. 15",
        "Small rates help SVFormer; warm-up, size and architecture matter little.",
        ("resformer.svformer-rate", "resformer.fig-15"),
    ),
    Item(
        "section 4.7, the summed rate",
        "The summed rate decides, and has little to do with warm-up.",
        ("resformer.svformer-rate", "resformer.fig-15"),
    ),
    Item(
        "section 4.8, Fig. 16",
        "Sharing layer 1's queries or keys costs much.",
        ("resformer.values-or-keys", "resformer.what-is-carried"),
    ),
    Item(
        "section 4.8, effective depth",
        "Sharing layer 1's values may reduce the effective depth.",
        ("resformer.effective-depth",),
    ),
    Item(
        "section 4.8, Fig. 17",
        "The more layers renew the shared values, the lower the loss.",
        ("resformer.fig-17", "resformer.effective-depth"),
    ),
    Item(
        "reproducibility statement",
        "Section 4.1.1 gives the complete setup.",
        ("resformer.table-3", "resformer.table-4"),
    ),
    # Appendix
    Item(
        "appendix A.1, Eqn. (13)",
        "The mean similarity of tokens measures over-smoothing, which concentration causes.",
        ("resformer.eqn13", "resformer.concentration-and-similarity"),
    ),
    Item(
        "appendix A.1, Fig. 18",
        "Similarity is an M where entropy is a W, so that concentration leads to over-smoothing.",
        ("resformer.concentration-and-similarity", "resformer.concentration"),
    ),
    Item(
        "appendix A.2, Fig. 19",
        "ResFormer's first token has less than 10 times others' importance, values of 0.7 times, a peak of 3 times.",
        ("resformer.sink-of-uniform", "resformer.sinks", "resformer.value-drains"),
    ),
    Item(
        "appendix A.2, Fig. 20",
        "ResFormer lessens concentration the more, the shorter the sequences.",
        ("resformer.concentration-length", "resformer.entropy-of-uniform"),
    ),
    Item(
        "appendix A.3, Fig. 21",
        "NeuTRENO is sensitive to lambda, and best at 0.4; 0.2 with ResFormer.",
        ("resformer.neutreno-lambda", "resformer.loss"),
    ),
    Item("appendix A.4, the data needed", "17.5B tokens for 700M parameters.", ("resformer.data-size",)),
    Item("appendix A.4, Table 2", "20B tokens of seven sources.", ("resformer.data-size",)),
    Item(
        "appendix A.5, Table 3",
        "Batches of 2M tokens at five lengths, with 32 accumulated steps on 8 GPUs.",
        ("resformer.table-3", "resformer.one-epoch"),
    ),
    Item(
        "appendix A.5, Table 4",
        "Four models, 2M to 468M, and their training, with 120 warm-up steps.",
        ("resformer.table-4", "resformer.svformer-rate"),
    ),
    Item(
        "appendix A.6, Table 5",
        "Validation losses of six models on seven domains.",
        ("resformer.table-5", "resformer.table-5-gains"),
    ),
)

NOT_JUDGED = {
    "section 1, deep vision models": "another paper's result, on images",
    "section 2.1, depth": "another paper's result",
    "section 2.2, other methods": "other papers' descriptions of themselves",
    "section 2.2, the first": "who was first is no matter of computation",
    "section 3.3, residual mapping": "a way of speaking: any weights learn the difference to what is added to them",
    "section 4.1.4, transfer": "another paper's suggestion, on images",
}

INDEX = Index("ResFormer's paper", ITEMS)
