package flowgraph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Budget bounds the usage of all nodes of a flow together: amounts in one or more dimensions, which functions report
// with activity.ReportUsage and reserve with activity.Reserve.
type Budget struct {
	// Name of the budget.
	Name string
	// Scope defines the runs that share it.
	Scope BudgetScope
	// KeyFrom is where the flow's input, which must be JSON then, has the key of a shared budget: the names of nested
	// fields. Empty is one for all.
	KeyFrom []string
	// Limits are its dimensions, by name. A shared budget without any must be created by runtime's BudgetRef.Create.
	Limits []BudgetLimit
	// Every is the interval of resets of the usage to 0; 0 is never. Whole milliseconds. Intervals count from the
	// creation or first use of the budget.
	Every time.Duration
	// Effect is the consequence of exceeding a hard limit.
	Effect BudgetEffect

	Faults []error // of the config
}

// BudgetLimit is one dimension of a budget. Amounts are whole units of the dimension: tokens, calls, hundredths of a
// cent.
type BudgetLimit struct {
	// Dimension follows activityspec.CheckName.
	Dimension string
	// Hard is never exceeded by usage plus reservations; 0 means unlimited.
	Hard int64
	// Soft is a warning threshold: usage above it is reported as an event of the run and to runtime's
	// WorkerConfig.OnBudget; 0 is none.
	Soft int64
}

// BudgetScope defines the runs that share a budget.
type BudgetScope string

// The scopes.
const (
	// ScopeRun is one budget for each run.
	ScopeRun BudgetScope = "run"
	// ScopeFlow is one for all runs of the flow, by its name.
	ScopeFlow BudgetScope = "flow"
	// ScopeShared is one for all flows of the namespace that name it, or one for each key.
	ScopeShared BudgetScope = "shared"
)

// BudgetEffect is the consequence when a node exceeds a hard limit. In any case the node's call of ReportUsage or
// Reserve returns an error and counts nothing.
type BudgetEffect string

// The effects.
const (
	// FailNode fails the node, without another attempt, if its function returns the error. Other nodes continue.
	FailNode BudgetEffect = "fail"
	// BlockNodes stops the start of nodes in all runs that share the budget until it is reset or raised, or until
	// reservations are returned. The node whose function returns the error waits too, and then starts its attempt anew.
	BlockNodes BudgetEffect = "block"
	// CancelRun cancels the run.
	CancelRun BudgetEffect = "cancel"
)

// Bounds of budgets.
const (
	maxBudgets     = 8  // of a flow
	maxDimensions  = 16 // of a budget
	maxBudgetLimit = 1 << 50
	MinBudgetReset = 100 * time.Millisecond
	MaxBudgetReset = 366 * 24 * time.Hour
)

// bound sets a limit of a dimension.
func (s *Budget) bound(dimension, kind string, n int64, place *int64) {
	if n < 1 || n > maxBudgetLimit {
		s.Faults = append(s.Faults, fmt.Errorf("%s limit of %q is %d, must be 1 to %d", kind, dimension, n,
			int64(maxBudgetLimit)))
	}
	*place = n
}

// dimension returns the dimension of that name, and adds it where there is none.
func (s *Budget) dimension(name string) *BudgetLimit {
	for i := range s.Limits {
		if s.Limits[i].Dimension == name {
			return &s.Limits[i]
		}
	}
	s.Limits = append(s.Limits, BudgetLimit{Dimension: name})
	return &s.Limits[len(s.Limits)-1]
}

// Declares reports whether the budget declares dimensions, instead of naming a budget created elsewhere.
func (s Budget) Declares() bool { return len(s.Limits) > 0 }

// Validate returns every fault of s, joined, or nil.
func (s Budget) Validate() error {
	errs := slices.Clone(s.Faults)
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := activityspec.CheckName(s.Name); err != nil {
		errs = append(errs, err)
	}
	switch s.Scope {
	case ScopeRun, ScopeFlow, ScopeShared:
	default:
		fault("scope %q is none of run, flow and shared", s.Scope)
	}
	switch s.Effect {
	case FailNode, BlockNodes, CancelRun:
	default:
		fault("effect %q is none of fail, block and cancel", s.Effect)
	}
	if slices.Contains(s.KeyFrom, "") {
		fault("key from %q: a field has no name", strings.Join(s.KeyFrom, "."))
	}
	if len(s.KeyFrom) > 0 && s.Scope != ScopeShared {
		fault("a budget of scope %s has no key", s.Scope)
	}
	if !s.Declares() && (s.Scope != ScopeShared || s.Every != 0) {
		fault("it has no dimension: it needs Hard, Soft or Counted")
	}
	if len(s.Limits) > maxDimensions {
		fault("%d dimensions, at most %d are allowed", len(s.Limits), maxDimensions)
	}
	if len(s.Faults) == 0 {
		if s.Every != 0 && (s.Every < MinBudgetReset || s.Every > MaxBudgetReset || s.Every%time.Millisecond != 0) {
			fault("reset every %s, must be %s to %s in whole milliseconds", s.Every, MinBudgetReset, MaxBudgetReset)
		}
		errs = append(errs, s.checkLimits()...)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("budget %q: %w", s.Name, err)
	}
	return nil
}

func (s Budget) checkLimits() []error {
	var errs []error
	for i, l := range s.Limits {
		if err := activityspec.CheckName(l.Dimension); err != nil {
			errs = append(errs, fmt.Errorf("dimension: %w", err))
		}
		if l.Hard < 0 || l.Hard > maxBudgetLimit || l.Soft < 0 || l.Soft > maxBudgetLimit {
			errs = append(errs, fmt.Errorf("limits of %q are %d and %d, must be 0 to %d", l.Dimension, l.Hard, l.Soft,
				int64(maxBudgetLimit)))
		}
		if l.Hard > 0 && l.Soft > l.Hard {
			errs = append(errs, fmt.Errorf("soft limit %d of %q is above the hard one, %d", l.Soft, l.Dimension,
				l.Hard))
		}
		if slices.ContainsFunc(s.Limits[:i], func(o BudgetLimit) bool { return o.Dimension == l.Dimension }) {
			errs = append(errs, fmt.Errorf("dimension %q is there twice", l.Dimension))
		}
	}
	return errs
}

func (s Budget) clone() Budget {
	s.KeyFrom, s.Limits, s.Faults = slices.Clone(s.KeyFrom), slices.Clone(s.Limits), slices.Clone(s.Faults)
	return s
}

func (v *Validation) budgets() {
	list := v.G.Budgets
	if len(list) > maxBudgets {
		v.Faults.Add("", "budgets", ErrLimit, "%d budgets, the limit is %d", len(list), maxBudgets)
	}
	for i, s := range list {
		if err := s.Validate(); err != nil {
			v.Faults.Cause("", "budgets", ErrOption, err)
		}
		if slices.ContainsFunc(list[:i], func(o Budget) bool { return o.Name == s.Name }) {
			v.Faults.Add("", "budgets", ErrDuplicateName, "budget %q", s.Name)
		}
	}
}

// storedBudget is the stored form of a Budget.
type storedBudget struct {
	Name       string            `json:"name"`
	Scope      string            `json:"scope"`
	KeyFrom    []string          `json:"key_from"`
	Dimensions []storedDimension `json:"dimensions"`
	EveryMS    int64             `json:"every_ms"`
	Effect     string            `json:"effect"`
}

type storedDimension struct {
	Name string `json:"name"`
	Hard int64  `json:"hard"`
	Soft int64  `json:"soft"`
}

func (w *writer) budgets(list []Budget) {
	for i, s := range list {
		if i == 0 {
			w.raw(`,"budgets":[{`)
		} else {
			w.raw(`,{`)
		}
		w.key("name")
		w.quoted(s.Name)
		w.text("scope", string(s.Scope))
		w.list("key_from", s.KeyFrom)
		w.dimensions(s.Limits)
		w.duration("every_ms", s.Every)
		w.text("effect", string(s.Effect))
		w.raw("}")
	}
	if len(list) > 0 {
		w.raw("]")
	}
}

func (w *writer) dimensions(list []BudgetLimit) {
	for i, l := range list {
		if i == 0 {
			w.raw(`,"dimensions":[{`)
		} else {
			w.raw(`,{`)
		}
		w.key("name")
		w.quoted(l.Dimension)
		w.number("hard", l.Hard)
		w.number("soft", l.Soft)
		w.raw("}")
	}
	if len(list) > 0 {
		w.raw("]")
	}
}

func (r *reader) budgets(list []storedBudget) []Budget {
	var specs []Budget
	for _, s := range list {
		spec := Budget{
			Name: s.Name, Scope: BudgetScope(s.Scope), KeyFrom: s.KeyFrom,
			Every:  r.duration("budgets.every_ms", s.EveryMS),
			Effect: BudgetEffect(s.Effect),
		}
		for _, d := range s.Dimensions {
			spec.Limits = append(spec.Limits, BudgetLimit{Dimension: d.Name, Hard: d.Hard, Soft: d.Soft})
		}
		specs = append(specs, spec)
	}
	return specs
}

// BudgetConfig is flow.BudgetConfig.
type BudgetConfig[E ~string] struct {
	Hard       map[string]int64
	Soft       map[string]int64
	Counted    []string
	PerFlow    bool
	Shared     bool
	PerKey     []string
	ResetEvery time.Duration
	OnExceeded E
}

// NewBudget returns the budget of a config, which may be invalid: see Validate.
func NewBudget[E ~string](name string, c BudgetConfig[E]) Budget {
	s := Budget{
		Name: name, Scope: ScopeRun, Effect: cmp.Or(BudgetEffect(c.OnExceeded), FailNode), KeyFrom: c.PerKey,
		Every: activityspec.Milliseconds(c.ResetEvery),
	}
	switch shared := c.Shared || len(c.PerKey) > 0; {
	case shared && c.PerFlow:
		s.Faults = append(s.Faults, errors.New("PerFlow: must not be set with Shared or PerKey"))
	case shared:
		s.Scope = ScopeShared
	case c.PerFlow:
		s.Scope = ScopeFlow
	}
	for _, dimension := range slices.Sorted(maps.Keys(c.Hard)) {
		s.bound(dimension, "hard", c.Hard[dimension], &s.dimension(dimension).Hard)
	}
	for _, dimension := range slices.Sorted(maps.Keys(c.Soft)) {
		s.bound(dimension, "soft", c.Soft[dimension], &s.dimension(dimension).Soft)
	}
	for _, dimension := range c.Counted {
		s.dimension(dimension)
	}
	slices.SortFunc(s.Limits, func(x, y BudgetLimit) int { return cmp.Compare(x.Dimension, y.Dimension) })
	return s
}
