"""One module per command, imported when the command is called, so that help is instant."""

INFEASIBLE, INTERRUPTED, TERMINATED = 3, 130, 143  # exit codes
MOST_SEED = 2**32 - 1  # what every generator takes
started = False  # whether this process is the command line, which compiles all kernels at once where none is

# name → (its module, and what of it is the command; what `monet --help` says).
COMMANDS = {
    "run": ("run:run", "Cost one training step: latency, energy, memory over time, by phase, operator, core and level."),
    "graph": ("graph:graph", "Show the training graph: operators, work and memory by phase; export it."),
    "map": ("map:map_command", "Show the best mapping of an operator, or what every operator of a model costs alone with its operands in DRAM."),
    "allocate": ("allocate:allocate", "Search which cores run which operators: one core, or split over several. Prints what is gained."),
    "fuse": ("fuse:fuse", "Find which operators to fuse, in what tiles: compared with unfused, the default, a manual plan and the bound."),
    "checkpoint": ("checkpoint:checkpoint", "Choose what to keep for the backward pass: exact optimum, front and baselines, with proof or gap."),
    "train": ("train:train", "Train a small model for real, in NumPy, and draw its loss against that of fp32: does a number format learn?"),
    "explain": ("explain:explain", "Say why a step takes this long, and which single hardware parameter would help most."),
    "diff": ("diff:diff", "Show what changed from one result to another, by phase, operator, level."),
    "rerun": ("rerun:rerun", "Evaluate again from the inputs inside a result; exit code 1 when the outcome differs."),
    "validate": ("validate:validate", "Check monet against published and measured figures; exit code 1 when a stated tolerance is exceeded."),
    "reproduce": ("reproduce:reproduce", "Repeat one study of the MONET paper: its figure and its published numbers beside ours."),
    "models": ("models:models", "List the built-in models, and the families with their parameters."),
    "hardware": ("hardware:app", "Accelerators: list those built in, show one, begin a new one, file schema."),
    "distribute": ("distribute:distribute", "Find the best way to lay a training step over the devices of a system: data, tensor, pipeline, sharding, recomputation."),
    "systems": ("systems:app", "Systems of devices and a network: list those built in, show one, file schema."),
    "explore": ("explore:app", "Search a space of hardware designs: monet explore SPACE [OPTIONS]; see monet explore search --help."),
    "mine": ("mine:mine", "Mine a template for the accelerator to build for some models, within area and power, and how far from the best it is."),
}  # fmt: skip
