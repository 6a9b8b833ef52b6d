package history

import "slices"

// series has the samples of each name, the oldest first.
type series[K comparable, T any] map[K][]T

// add appends a sample. It leaves out further names when there are mostSeries.
func (s series[K, T]) add(name K, sample T) {
	if _, known := s[name]; known || len(s) < mostSeries {
		s[name] = append(s[name], sample)
	}
}

// forget removes the samples at the begin of each series that are old, and series without samples.
func (s series[K, T]) forget(old func(T) bool) {
	for name, list := range s {
		first := slices.IndexFunc(list, func(sample T) bool { return !old(sample) })
		switch {
		case first < 0:
			delete(s, name)
		case first > 0:
			s[name] = slices.Delete(list, 0, first)
		}
	}
}
