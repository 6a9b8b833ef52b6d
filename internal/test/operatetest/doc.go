// Package operatetest tests operations on runs and lanes: bulk jobs, forks, pauses, schedules that change, and the interceptors around them.
package operatetest
