package testserver

import (
	"fmt"
	"io"
	"net"
	"syscall"
)

// endWithParent makes the kernel kill the process when the thread that started it ends.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// claimPort holds a name in the kernel's abstract socket namespace, which exists once per network namespace like ports,
// and which is released when the process ends.
func claimPort(number int) (io.Closer, error) {
	return net.Listen("unix", fmt.Sprintf("@flowfabric-testserver-%d", number))
}
