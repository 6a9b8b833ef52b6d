// Package runevent defines the events of runs and nodes that RunRef.Watch of package runtime yields.
package runevent
