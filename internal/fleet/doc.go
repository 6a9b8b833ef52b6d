// Package fleet lists the live workers of all programs, and asks one to take no more work.
package fleet
