"""The paper's example as a task: how many meanings a layer tells apart, trained."""
