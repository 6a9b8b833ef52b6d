// Package retry repeats calls whose outcome is unknown, and reports which errors leave it unknown.
package retry
