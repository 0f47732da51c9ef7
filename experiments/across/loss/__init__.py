"""Language-model losses of many variants on paired seeds."""
