"""What :mod:`ronde.tensorflow.compression` has, the very same objects."""

from ronde.tensorflow.compression import BF16Compressor, Compression, Compressor, FP16Compressor, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
