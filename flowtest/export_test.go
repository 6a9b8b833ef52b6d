package flowtest

// CheckFakes does what Run does at its end.
func (t *T) CheckFakes() { t.checkFakes() }

// ForgetFakes removes what the test has set up.
func (t *T) ForgetFakes() {
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	clear(t.record.fakes)
	t.record.faults = nil
}

// Updating reports whether golden files are written.
func Updating() bool { return updating() }
