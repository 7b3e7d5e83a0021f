"""An operator by itself, its operands in DRAM: a fusion group of one."""
