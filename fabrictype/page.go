package fabrictype

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty on the last page. A page may have few items or none and still have a
	// next one.
	Next string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one."`
	// Incomplete reports whether older items may be missing, since the index that was read keeps only the newest ones.
	// Only lists of runs that are searched by words of errors set it.
	Incomplete bool `json:"incomplete,omitempty" doc:"Older items may be missing: the index of the words keeps the newest runs."`
}
