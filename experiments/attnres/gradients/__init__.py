"""What sublayers send back to their reads at initial weights, by depth: is it more even under depth attention?"""
