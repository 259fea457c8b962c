# Install rules: the C and C++ surface for CMake users. The Python wheel's layout is in pyproject.toml.
