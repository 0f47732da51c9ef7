"""One training on many GPUs, or in many processes: weights, gradients and moments cut by FSDP2, every batch shared out.

    with joined(launched(os.environ)) as processes:         # what torchrun has started, or one alone
        model = Decoder(config, plan, device=f"cuda:{processes.local}")
        for logged in train(model, task, recipe, seed, folder=folder, processes=processes):
            ...
        model = processes.whole(model)                      # in the first process; None in the others

Models, tasks and recipes know nothing of it, and the loop is `icl.training.loop`'s.  What one process can read another
number of them can: the run's folder, its checkpoints and the weights at the end.
"""
