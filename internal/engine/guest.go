package engine

import "context"

// Guest makes the backend of sessions whose engine keeps the function library of another project.
type Guest interface {
	// Check returns an error that joins all faults of the guest's configuration.
	Check() error
	// Open returns the backend of a session that is connected.
	Open(ctx context.Context, s *Session) (Backend, error)
}

// ContractBackend carries the backend of package contract to runtime.OpenConfig; programs can do nothing else with it.
// The zero value has none.
type ContractBackend struct{ guest Guest }

// ContractBackendOf returns the value that carries a guest.
func ContractBackendOf(g Guest) ContractBackend { return ContractBackend{g} }

// GuestOf returns the guest that a value carries, nil for the zero value.
func GuestOf(b ContractBackend) Guest { return b.guest }
