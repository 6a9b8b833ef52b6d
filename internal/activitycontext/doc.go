// Package activitycontext carries a running execution from the worker to the context helpers of package activity. It
// is a separate package so that the worker can fill the context without package activity exporting the key.
package activitycontext
