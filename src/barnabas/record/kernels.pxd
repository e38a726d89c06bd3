# What other kernels may call without going through Python. The class itself is in kernels.py.

cimport cython


cpdef list encode_headers(object headers)


@cython.final
cdef class RecordsBuilder:
    cdef bytearray _buffer
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _size
    cdef long long _count
    cdef bint _base_known
    cdef long long _base_timestamp
    cdef long long _max_timestamp
    cdef long long _last_offset_delta
    cdef int _grow(self, Py_ssize_t needed) except? -1
    cdef Py_ssize_t _put(self, Py_ssize_t position, object data, Py_ssize_t length) except? -1
    cdef Py_ssize_t _append(
        self,
        long long timestamp_ms,
        object key,
        object value,
        list encoded,
        long long offset_delta,
        Py_ssize_t limit,
    ) except? -1
    cdef Py_ssize_t _append_span(
        self,
        long long timestamp_ms,
        unsigned char* keys,
        Py_ssize_t key_start,
        Py_ssize_t key_length,
        unsigned char* values,
        Py_ssize_t value_start,
        Py_ssize_t value_length,
        Py_ssize_t limit,
    ) except? -1
