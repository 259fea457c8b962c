"""Functions of TensorFlow and JAX that are kept over ``shutdown()`` and ``init()`` with another number of ranks."""

from __future__ import annotations

from launching import run_job

TENSORFLOW = """
import keras, os, tensorflow as tf, ronde.tensorflow as hvd
keep = {name: value for name, value in os.environ.items() if name.startswith("RONDE_")}
rank = int(keep["RONDE_RANK"])
norm = hvd.SyncBatchNormalization(axis=-1, momentum=0.0)
layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
layer.build([None, 1])
table, dense = tf.Variable(tf.ones([4, 2])), tf.Variable(tf.ones([2]))
x = tf.constant([[1.0 + 10 * rank], [3.0 + 10 * rank]])
forward = tf.function(lambda x: norm(x, training=True))

@tf.function
def local(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x))
    return hvd.PartialDistributedGradientTape(tape, local_layers=[layer]).gradient(loss, layer.trainable_weights)[0]

@tf.function
def averages(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1]) * x) + tf.reduce_sum(dense * x)
    of_table, of_dense = hvd.DistributedGradientTape(tape).gradient(loss, [table, dense])
    slices = hvd.allreduce(tf.IndexedSlices(tf.fill([1, 2], x), [1], [4, 2]))
    return tf.convert_to_tensor(of_table)[1, 0], of_dense[0], tf.convert_to_tensor(slices)[1, 0]

def look(job):
    size = hvd.size()
    forward(x)
    mine = tf.reduce_sum(x) / 2.0
    print(job, size, "mean", float(norm.moving_mean[0]) == (7.0 if size == 2 else float(mine)))
    print(job, size, "local", float(local(x)[0, 0]) == 2.0 * float(mine) / size)
    mean = 1.5 if size == 2 else rank + 1.0
    print(job, size, "averages", [float(each) for each in averages(tf.constant(rank + 1.0))] == [mean] * 3)

ALONE = {"RONDE_SIZE": "1", "RONDE_RANK": "0", "RONDE_LOCAL_SIZE": "1", "RONDE_LOCAL_RANK": "0"}
for job, variables in enumerate((ALONE, keep, ALONE)):
    os.environ.update(variables)
    hvd.init()
    look(job)
    hvd.shutdown()
"""


def test_of_tensorflow(tmp_path):
    """Averages of slices, local gradients and synchronised moments were of as many ranks as when they were traced."""
    program = tmp_path / "program.py"
    program.write_text(TENSORFLOW)
    ended = run_job(2, str(program))
    told = ended.lines("0 ") + ended.lines("1 ") + ended.lines("2 ")
    assert ended.code == 0 and len(told) == 18 and all(each.endswith("True") for each in told), ended.output
    assert len(ended.lines("1 2")) == 6, ended.output


JAX = """
import jax, jax.numpy as jnp, os, sys, ronde.jax as rj
rj.init()
gradient = jax.jit(jax.grad(lambda x: (rj.reducescatter(x, op=rj.Sum) * 5).sum()))
sums = jax.jit(jax.grad(lambda x: (rj.allreduce(x) * 5).sum()))
print("first", gradient(jnp.ones((1, 2)))[0].tolist(), sums(jnp.ones(2)).tolist())
rank = rj.rank()
rj.shutdown()
if rank == 2:
    sys.exit(0)
os.environ["RONDE_SIZE"] = os.environ["RONDE_LOCAL_SIZE"] = "2"
rj.init()
print("second", sums(jnp.ones(2)).tolist())
try:
    print("rows", gradient(jnp.ones((1, 2))).tolist())
except (ValueError, jax.errors.JaxRuntimeError) as error:
    print("rows are refused:", "traced in an earlier job" in str(error))
"""


def test_of_jax(tmp_path):
    """The gradient of a reduce-scatter was as many times too large as there had been ranks."""
    program = tmp_path / "program.py"
    program.write_text(JAX)
    ended = run_job(3, str(program))
    assert ended.code == 0, ended.output
    assert ended.lines("first") == ["first [15.0, 15.0] [5.0, 5.0]"] * 3, ended.output
    assert ended.lines("second") == ["second [5.0, 5.0]"] * 2, ended.output
    assert ended.lines("rows") == ["rows are refused: True"] * 2, ended.output
