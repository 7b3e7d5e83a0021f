"""A first hour with monet: a model, its training step, an accelerator, a result, and what would make it better.

Run it as a script, or cell by cell in a notebook; every object prints itself. Files go to the current folder.
"""

# %% A model is a graph. Zoo names, ONNX files and torch modules all come in through load_model.
import monet

model = monet.load_model("resnet18-cifar", batch=4)
print(f"{model.name}: {len(model.ops)} operators, {len(model.parameters)} parameter tensors")

# %% A training step is a graph too: forward, loss, backward, update. It is counted exactly …
step = monet.training_step(model, optimizer="adam")
summary = monet.summarise(step)
print(f"forward {summary['macs']['forward']:,} MACs, backward {summary['macs']['backward']:,} MACs")
print(f"kept for backward: {summary['saved_for_backward_bytes']:,} bytes, most of it made by", end=" ")
print(max(summary["saved_by_kind"], key=summary["saved_by_kind"].get))

# %% … and it runs: loss, every gradient, every updated parameter, in NumPy.
from monet.numerics import random_values  # noqa: E402

small = monet.training_step(monet.load_model("mlp-cartpole", batch=8), optimizer="adam")
values = monet.execute(small, random_values(small, seed=0))
print(f"loss {float(values[small.loss]):.4f}, {len(small.gradients)} gradients")

# %% An accelerator is a YAML file, or a preset with parameters to turn.
hardware = monet.load_hardware("edge-tpu")
print(f"{hardware.name}: {len(hardware.cores)} cores, {hardware.area_m2 * 1e6:.0f} mm²")

# %% Put the step on it.
result = monet.evaluate(step, hardware)
print(result)

# %% Half as many cores: what does it cost?
smaller = monet.evaluate(step, monet.load_hardware("edge-tpu", overrides={"y_pes": 2}))
print(
    f"{smaller.latency_s / result.latency_s:.2f} times the latency, {smaller.energy_j / result.energy_j:.2f} the energy"
)

# %% The whole picture in one file.
result.report("tutorial.html")
print("wrote tutorial.html")
