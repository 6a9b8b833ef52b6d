package lease

import (
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// Uncertainty is set by a failed call, after which the engine may have leases that the worker does not know. The next
// renewal compares the leases then. The zero value wakes nothing.
type Uncertainty struct {
	set atomic.Bool
	// Woken has a value when the renewals may have something to do again.
	Woken chan struct{}
}

// Mark makes the next renewal compare the worker's leases with the engine's.
func (u *Uncertainty) Mark() {
	u.set.Store(true)
	u.Wake()
}

// Wake wakes renewals that rest.
func (u *Uncertainty) Wake() { sleep.Wake(u.Woken) }

// Take reports whether leases are to be compared, and expects that they are.
func (u *Uncertainty) Take() bool { return u.set.Swap(false) }

// IsSet reports whether leases are to be compared.
func (u *Uncertainty) IsSet() bool { return u.set.Load() }
