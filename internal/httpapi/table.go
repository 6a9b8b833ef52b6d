package httpapi

import "slices"

// Operations returns the table, in the order of the documentation.
func Operations() []Operation {
	ops := make([]Operation, 0, 96)
	for _, group := range [][]Entry{
		runOperations(), nodeOperations(), waitOperations(), flowOperations(), scheduleOperations(), laneOperations(),
		limitOperations(), budgetOperations(), workerOperations(), taskOperations(), bulkOperations(),
		observeOperations(), executionOperations(), serverOperations(),
	} {
		for _, entry := range group {
			ops = append(ops, entry.Entry())
		}
	}
	return slices.Clip(ops)
}

// Find returns the operation of that name.
func Find(name string) (Operation, bool) {
	ops := Operations()
	i := slices.IndexFunc(ops, func(o Operation) bool { return o.Name == name })
	if i < 0 {
		return Operation{}, false
	}
	return ops[i], true
}
