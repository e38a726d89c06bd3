# The wall clock for compiled code: C11 has it on every platform, and no call into Python is needed.

cdef extern from *:
    """
    #include <time.h>

    static long long barnabas_wall_clock_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    long long wall_clock_ms "barnabas_wall_clock_ms"() noexcept nogil
