"""Peak memory of a process that a test starts, told by itself: `PEAK` goes in front of its code, which calls `peak()`."""

# not getrusage: Linux counts there what the process that started it held
PEAK = """
def peak():
    with open("/proc/self/status") as told:
        return next(int(line.split()[1]) for line in told if line.startswith("VmHWM")) // 1024  # MB
"""
