"""examples/torch/fashion_mnist.py on few images: small_training.py FOLDER, where small_images.make() has put them."""

import runpy
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "torch"
sys.path.insert(0, str(EXAMPLES))
sys.argv = ["fashion_mnist.py", "--data", sys.argv[1], "--epochs", "1", "--batch", "64"]
runpy.run_path(str(EXAMPLES / "fashion_mnist.py"), run_name="__main__")
