package fabrictype

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty on the last page. A page may have few items or none and still have a
	// next one.
	Next string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one."`
}
