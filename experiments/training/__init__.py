"""Full-size trainings as data: one, many, and what a comparison needs of them."""
