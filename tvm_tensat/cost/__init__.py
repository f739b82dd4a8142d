"""Costs of kernels: measured here or on a farm, kept in a store, estimated by a roofline."""

from tvm_tensat.cost.farm import Farm
from tvm_tensat.cost.kernel import Kernel, MeasureError, Measurement, Setting, StoreKey
from tvm_tensat.cost.measure import measure
from tvm_tensat.cost.pool import machine_lock
from tvm_tensat.cost.setting import setting_of
from tvm_tensat.cost.store import CostStore, CostStoreError
from tvm_tensat.cost.tracker import Tracker

__all__ = [
    "CostStore",
    "CostStoreError",
    "Farm",
    "Kernel",
    "MeasureError",
    "Measurement",
    "Setting",
    "StoreKey",
    "Tracker",
    "machine_lock",
    "measure",
    "setting_of",
]
