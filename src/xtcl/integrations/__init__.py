"""XTCL inside other libraries: a transform of PyG, a step of scikit-learn."""
