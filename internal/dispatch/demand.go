package dispatch

// AddSlot adds a free slot, for a worker whose slots are the tasks that its program requests.
func (q *Queue) AddSlot() { q.ReleaseSlot() }

// RemoveSlot takes back a slot that AddSlot has added and that no task has used. If a claim uses it, it goes when the
// claim, or the task that it has leased, frees it.
func (q *Queue) RemoveSlot() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
	} else {
		q.owed++
	}
}

// addFree frees n slots, except those that RemoveSlot could not take back before. The caller holds the lock.
func (q *Queue) addFree(n int) {
	paid := min(n, q.owed)
	q.owed -= paid
	q.free += n - paid
}
