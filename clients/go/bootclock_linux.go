package seqd

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of Linux.
const clockBoottime = 7

// bootClock returns the time since the machine was booted, suspended time included. Holds are measured with it, because
// steps of the wall clock do not change it.
func bootClock() time.Duration {
	var at syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&at)), 0)
	if failed != 0 {
		panic("seqd: the boot clock cannot be read: " + failed.Error())
	}
	return time.Duration(at.Nano())
}
