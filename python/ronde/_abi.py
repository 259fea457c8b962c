"""The C interface in ctypes: numbers, structs and prototypes of ``<ronde/ronde.h>``, in its order and nothing else."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

#: Major * 1000 + minor of the interface written down here.
ABI_VERSION = 1004

OK = 0
INVALID_ARGUMENT = 1
TIMED_OUT = 8
INTERRUPTED = 9
CANCELLED = 10
FORKED = 12
OUT_OF_MEMORY = 14

UINT8, INT8, UINT16, INT16, INT32, INT64 = 0, 1, 2, 3, 4, 5
FLOAT16, FLOAT32, FLOAT64 = 6, 7, 8
BOOL, BFLOAT16 = 9, 10
COMPLEX64, COMPLEX128 = 11, 12
FLOAT8_E4M3, FLOAT8_E5M2 = 13, 14
UINT32, UINT64 = 15, 16

ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = 0, 1, 2, 3, 4
REDUCE, GATHER, SCATTER, SEND, RECV, BARRIER, JOIN = 5, 6, 7, 8, 9, 10, 11
SCAN, EXSCAN = 12, 13

ANY_SOURCE = -1

AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = 0, 1, 2, 3, 4, 5
BIT_AND, BIT_OR, BIT_XOR = 6, 7, 8

MAX_DIMENSIONS = 32


class Options(Structure):
    """``ronde_options``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_int32),
        ("size", c_int32),
        ("local_rank", c_int32),
        ("local_size", c_int32),
        ("cross_rank", c_int32),
        ("cross_size", c_int32),
        ("store", c_char_p),
        ("store_bytes", c_size_t),
        ("key", c_char_p),
        ("key_bytes", c_size_t),
        ("init_timeout_s", c_double),
        ("timeout_s", c_double),
        ("meeting", c_char_p),
        ("meeting_bytes", c_size_t),
    ]


class Topology(Structure):
    """``ronde_topology``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_int32),
        ("size", c_int32),
        ("local_rank", c_int32),
        ("local_size", c_int32),
        ("cross_rank", c_int32),
        ("cross_size", c_int32),
        ("epoch", c_uint64),
    ]


class Counters(Structure):
    """``ronde_counters``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("requests", c_uint64),
        ("plans", c_uint64),
        ("fused_tensors", c_uint64),
        ("bytes_reduced", c_uint64),
        ("control_messages", c_uint64),
        ("log_entries", c_uint64),
        ("installs", c_uint64),
        ("breaks", c_uint64),
        ("replayed", c_uint64),
        ("direct_bytes", c_uint64),
        ("strangers", c_uint64),
    ]


class Tensor(Structure):
    """``ronde_tensor``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("shape", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("device", c_int32),
        ("device_index", c_int32),
    ]


class Request(Structure):
    """``ronde_request``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("op", c_int32),
        ("group", c_int32),
        ("name", c_char_p),
        ("name_bytes", c_size_t),
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("count", c_size_t),
        ("reduce_op", c_int32),
        ("root", c_int32),
        ("prescale", c_double),
        ("postscale", c_double),
        ("timeout_s", c_double),
        ("splits", c_void_p),
        ("splits_count", c_size_t),
        ("reserved", c_int64),
        ("tag", c_int32),
        ("call_site", c_int32),
        ("on_done", c_void_p),
        ("user", c_void_p),
        ("call_number", c_uint64),
        ("taken", c_void_p),
    ]


class ErrorInfo(Structure):
    """``ronde_error_info``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("status", c_int32),
        ("failed_rank", c_int32),
        ("message", c_char_p),
        ("tensor", c_char_p),
    ]


#: Function -> (result, arguments). Pointers to memory of ours are passed as addresses (c_void_p): converting an int
#: costs less than checking a pointer's type.
PROTOTYPES = {
    "ronde_abi_version": (c_uint32, []),
    "ronde_version": (c_char_p, []),
    "ronde_last_error_info": (c_int32, [POINTER(ErrorInfo)]),
    "ronde_init": (c_int32, [POINTER(Options)]),
    "ronde_shutdown": (c_int32, []),
    "ronde_is_initialized": (c_int32, []),
    "ronde_engine_create": (c_int32, [POINTER(Options), POINTER(c_void_p)]),
    "ronde_engine_destroy": (c_int32, [c_void_p]),
    "ronde_store_open": (c_int32, [POINTER(c_void_p), POINTER(c_char_p), POINTER(c_char_p)]),
    "ronde_store_close": (c_int32, [c_void_p]),
    "ronde_group_make": (c_int32, [c_void_p, POINTER(Options), POINTER(c_int32), c_size_t, POINTER(c_int32)]),
    "ronde_get_topology": (c_int32, [c_void_p, POINTER(Topology)]),
    "ronde_get_counters": (c_int32, [c_void_p, POINTER(Counters)]),
    "ronde_get_backend": (c_int32, [c_void_p, POINTER(c_char_p), POINTER(c_int32)]),
    "ronde_start_timeline": (c_int32, [c_void_p, c_char_p, c_size_t, c_int32]),
    "ronde_stop_timeline": (c_int32, [c_void_p]),
    "ronde_call_number": (c_int32, [c_void_p, c_int32, POINTER(c_uint64)]),
    "ronde_refuse_call": (c_int32, [c_void_p, c_int32, c_uint64, c_char_p, c_size_t]),
    "ronde_submit": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ronde_execute": (c_int32, [c_void_p, c_void_p, c_double, c_void_p]),
    "ronde_cancel": (c_int32, [c_void_p]),
    "ronde_test": (c_int32, [c_void_p, POINTER(c_int32)]),
    "ronde_wait": (c_int32, [c_void_p, c_double]),
    "ronde_wait_while_moving": (c_int32, [c_void_p, c_double, c_double]),
    "ronde_wait_all": (c_int32, [c_void_p, c_size_t, c_double]),
    "ronde_wait_any": (c_int32, [c_void_p, c_size_t, c_double, POINTER(c_size_t)]),
    "ronde_release": (c_int32, [c_void_p]),
    "ronde_callback_threw": (None, [c_void_p, c_char_p]),
    "ronde_ticket_error": (c_int32, [c_void_p, POINTER(ErrorInfo)]),
    "ronde_ticket_output": (
        c_int32,
        [c_void_p, c_size_t, POINTER(c_void_p), POINTER(POINTER(c_int64)), POINTER(c_int32), POINTER(c_int32)],
    ),
    "ronde_ticket_source": (c_int32, [c_void_p, POINTER(c_int32)]),
    "ronde_call_site": (c_int32, [c_char_p, c_size_t, c_void_p]),
    "ronde_ticket_splits": (c_int32, [c_void_p, POINTER(POINTER(c_int64)), POINTER(c_size_t)]),
    "ronde_register_slot": (c_int32, [c_void_p, c_void_p, POINTER(c_int64)]),
    "ronde_submit_slot": (c_int32, [c_int64]),
    "ronde_submit_slots": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "ronde_wait_slot": (c_int32, [c_int64, c_double]),
    "ronde_test_slot": (c_int32, [c_int64, POINTER(c_int32)]),
    "ronde_slot_ticket": (c_int32, [c_int64, POINTER(c_void_p)]),
    "ronde_unregister_slot": (c_int32, [c_int64]),
    "ronde_alloc_shared": (c_int32, [c_void_p, c_char_p, c_size_t, c_size_t, POINTER(c_void_p)]),
    "ronde_free_shared": (c_int32, [c_void_p]),
}


def declare(library: ctypes.CDLL) -> None:
    """Gives the library's functions their types. AttributeError, naming the function, if one is missing."""
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
