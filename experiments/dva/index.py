"""Dynamic Value Attention's paper, line by line: what stands where, in our words, and which entries judge it.

Every equation (the text that is handed on has lost their displays; what they say is taken from the sentences around
them), table and figure, and every statement that can be right or wrong, in the order of the text.  What no entry judges
stands in `NOT_JUDGED`, with the reason.
"""

from __future__ import annotations

from experiments.ledger.overview import Index, Item

ITEMS = (
    Item(
        "abstract, static values",
        "In a head the same value serves every query, which limits Transformers.",
        ("dva.example", "dva.gates"),
    ),
    Item("abstract, heads", "Several heads mitigate that.", ("dva.one-head", "dva.example")),
    Item("abstract, number of heads", "Complexity limits their number.", ("dva.number-of-heads",)),
    Item("abstract, one head", "With a value for each query all heads but one are redundant.", ("dva.one-head",)),
    Item(
        "abstract, redundancy", "With static values heads are redundant, and the more of them are.", ("dva.redundancy",)
    ),
    Item(
        "abstract, no feed-forward",
        "The feed-forward can be cut: values come from far beyond the context.",
        ("dva.no-feed-forward", "dva.feed-forward-as-attention"),
    ),
    Item("abstract, time", "It saves 37.6 % of the training time.", ("dva.time",)),
    Item("abstract, learning", "It learns better.", ("dva.table-2",)),
    Item("section 1, recurrent networks", "They take a fixed share of every token and are hard to train.", ()),
    Item("section 1, linear recurrences", "They pay equal attention to every token and do badly on language.", ()),
    Item("section 1, gates of Mamba and LSTM", "They look at one token at a time, not at pairs.", ()),
    Item("section 1, any knowledge", "Any form of knowledge can be made embeddings of, as a cat and its picture.", ()),
    Item("section 2.1, similarity", "A product of tokens measures similarity and not strength.", ("dva.scores",)),
    Item("section 2.1, Eqn. (1)", "The score of a pair is a product of a query and a key.", ("dva.scores",)),
    Item("section 2.1, together", "The maps of queries and keys mean nothing apart.", ("dva.scores",)),
    Item("section 2.1, Eqn. (2)", "A token is refined by the values of others, weighted by scores.", ("dva.scores",)),
    Item(
        "section 2.2, one meaning",
        "In hot girl drinks hot water both hots give the same value in a single head.",
        ("dva.example",),
    ),
    Item("section 2.2, Fig. 1", "Two heads give hot two meanings.", ("dva.example", "dva.one-head")),
    Item("section 2.2, number of heads", "Computation restricts the number of heads.", ("dva.number-of-heads",)),
    Item("section 2.2, one dynamic head", "A dynamic head gives every pair a meaning of its own.", ("dva.example",)),
    Item(
        "section 2.3, Fig. 2",
        "A feed-forward is cross-attention: its matrices are keys and values.",
        ("dva.feed-forward-as-attention",),
    ),
    Item(
        "section 2.3, core embeddings",
        "Keys and values are linear maps of a latent set of embeddings, the model's knowledge.",
        ("dva.feed-forward-as-attention",),
    ),
    Item(
        "section 2.3, limits",
        "It has a single head and no query of its own.",
        ("dva.feed-forward-as-attention",),
    ),
    Item(
        "section 2.3, not needed",
        "With dynamic values it is not needed, as they reach beyond the context.",
        ("dva.no-feed-forward",),
    ),
    Item(
        "section 3.1, Eqn. (3)", "The relation of a pair is the matrix of q^R transposed times k^R.", ("dva.initial",)
    ),
    Item("section 3.1, Eqn. (4)", "It transforms the value.", ("dva.initial",)),
    Item("section 3.1, Eqn. (5)", "The score weighs what comes of that.", ("dva.initial",)),
    Item("section 3.1, cost", "That costs too much to be feasible.", ("dva.initial",)),
    Item("section 3.2, Eqn. (6)", "The relation is q^R times k^R, entry by entry.", ("dva.revised",)),
    Item("section 3.2, Eqn. (7)", "It is added to the value.", ("dva.revised",)),
    Item("section 3.2, Eqn. (8)", "The score weighs the sum.", ("dva.revised",)),
    Item("section 3.2, cost", "That is much simpler and feasible.", ("dva.revised", "dva.initial")),
    Item(
        "section 3.2, powerful",
        "It shares the idea of the initial form, and is powerful.",
        ("dva.powerful", "dva.first-layer", "dva.both-layers"),
    ),
    Item("section 4, benchmark", "GPT-3 is GPT-2's architecture, scaled up: fundamentally the same.", ()),
    Item("section 4, Fig. 3", "Model b lacks the feed-forward of model a.", ("dva.table-1", "dva.no-feed-forward")),
    Item("section 4, Table 1", "Sizes of both, 162,419,712 and 112,800,768 parameters.", ("dva.table-1",)),
    Item(
        "section 4, fairness",
        "Both were trained under the same conditions, on War and Peace, 854,094 tokens.",
        ("dva.table-2", "dva.time"),
    ),
    Item("section 4, characters", "The novel has 3,227,578 characters.", ()),
    Item("section 5, time", "15:47 and 9:51 for five epochs: 37.6 % less.", ("dva.time",)),
    Item("section 5, money", "In practice that saves millions and much energy.", ()),
    Item(
        "section 5, Table 2",
        "Training and validation losses of both, every 100 steps.",
        ("dva.table-2", "dva.table-2-cells"),
    ),
    Item("section 5, convergence", "Both are close to convergence in the first epoch.", ("dva.table-2",)),
    Item("section 5, overfitting", "Four more epochs overfit.", ("dva.table-2",)),
    Item("section 5, Fig. 4", "The same, drawn: model b learns deeper, faster and more stably.", ("dva.table-2",)),
    Item("section 6, sparse attention", "Static and dynamic masks are limited by the number of heads.", ()),
    Item("section 6, gates", "Gates are another kind of dynamic sparse attention.", ("dva.gates",)),
    Item("section 6, score matrix", "A gate optimises the score matrix.", ("dva.gates",)),
    Item("section 6, Mamba", "It works well at small sizes, and gathers everything in a single hidden layer.", ()),
    Item(
        "section 6, fixed values",
        "Earlier works give a fixed value to all queries of a head, and no pair one of its own.",
        ("dva.gates", "dva.example"),
    ),
    Item(
        "section 7, contributions",
        "A semantic explanation of Transformers, and a reconstruction that confirms it.",
        ("dva.example", "dva.feed-forward-as-attention", "dva.toy"),
    ),
    Item("section 7, the way there", "Without the explanation the reconstruction would not have been found.", ()),
    Item("section 7, plug-in", "Dynamic values may become a plug-in for tuning, like LoRA.", ("dva.plug-in",)),
)

NOT_JUDGED = {
    "section 1, recurrent networks": "of other models, without a number",
    "section 1, linear recurrences": "of other models, without a number",
    "section 1, gates of Mamba and LSTM": "of other models, without a number",
    "section 1, any knowledge": "a view of what embeddings are for, of which nothing is made",
    "section 4, benchmark": "of another paper's model; by that paper GPT-3 also has layers of banded sparse attention",
    "section 4, characters": "the file is not handed on; of its tokens what can be counted is in dva.table-2",
    "section 5, money": "an extrapolation from two trainings of 15 minutes",
    "section 6, sparse attention": "of other models, without a number",
    "section 6, Mamba": "of another model, without a number",
    "section 7, the way there": "on how an idea was found: nothing could speak against it",
}

INDEX = Index("Dynamic Value Attention's paper", ITEMS)
