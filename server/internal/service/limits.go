package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// Tag returns the ETag of the part of a value that an operator can change: a limit or a budget without its counts.
func Tag(value any) string {
	switch v := value.(type) {
	case *fabrictype.Limit:
		return tagOf([]any{v.Name, v.Key, v.AtMost, v.Per, v.AtOnce, v.Set})
	case *fabrictype.Budget:
		limits := make(map[string][2]int64, len(v.Amounts))
		for _, a := range v.Amounts {
			limits[a.Dimension] = [2]int64{a.Hard, a.Soft}
		}
		return tagOf([]any{v.Name, v.Key, v.Flow, v.Run, v.Effect, v.ResetEvery, v.Set, limits})
	default:
		return ""
	}
}

func tagOf(parts []any) string {
	text, _ := json.Marshal(parts) // of texts, numbers and maps of them
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// matches returns an error that matches enginecore.ErrChangedMeanwhile unless the condition is empty, * or the tag.
func matches(condition, tag string) error {
	if condition == "" || condition == "*" || condition == tag {
		return nil
	}
	return fmt.Errorf("%w: If-Match has %.80s, the present state %s", enginecore.ErrChangedMeanwhile, condition, tag)
}

// gone is the error of a change whose If-Match names a state of a limit or a budget that has been removed.
func gone(err, notFound error, condition string) error {
	if errors.Is(err, notFound) {
		return fmt.Errorf("%w: If-Match has %.80s, and nothing has this name any more", enginecore.ErrChangedMeanwhile,
			condition)
	}
	return err
}

// ListLimits implements httpapi.ListLimits.
func (s *Service) ListLimits(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Limit], error) {
	limits, err := s.client.Limits(ctx)
	if err != nil {
		return nil, err
	}
	return whole(limits), nil
}

// GetLimit implements httpapi.GetLimit.
func (s *Service) GetLimit(ctx context.Context, in *httpapi.LimitInput) (*fabrictype.Limit, error) {
	l, err := s.client.Limit(in.Limit, in.Key).Describe(ctx)
	if err != nil {
		return nil, err
	}
	return &l, nil
}

// SetLimit implements httpapi.SetLimit.
func (s *Service) SetLimit(ctx context.Context, in *httpapi.SetLimitInput) (*fabrictype.Limit, error) {
	config := activity.LimitConfig{AtOnce: in.Body.AtOnce}
	if in.Body.AtMost > 0 {
		config.AtMost, config.Per = in.Body.AtMost, in.Body.Per.Duration
	}
	if err := s.setLimit(ctx, in, config); err != nil {
		return nil, err
	}
	return s.GetLimit(ctx, &in.LimitInput)
}

func (s *Service) setLimit(ctx context.Context, in *httpapi.SetLimitInput, config activity.LimitConfig) error {
	if in.IfMatch == "" {
		return s.as(ctx).Limit(in.Limit, in.Key).Set(ctx, config)
	}
	present, err := s.client.Limit(in.Limit, in.Key).Describe(ctx)
	if err != nil {
		return gone(err, engine.ErrLimitNotFound, in.IfMatch)
	}
	if err := matches(in.IfMatch, Tag(&present)); err != nil {
		return err
	}
	if in.IfMatch == "*" {
		return s.as(ctx).Limit(in.Limit, in.Key).Set(ctx, config)
	}
	return s.as(ctx).Limit(present.Name, present.Key).Replace(ctx, present, config)
}

// ResetLimit implements httpapi.ResetLimit.
func (s *Service) ResetLimit(ctx context.Context, in *httpapi.LimitInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Limit(in.Limit, in.Key).Reset(ctx))
}

func budgetRef(in *httpapi.BudgetInput) fabrictype.BudgetName {
	return fabrictype.BudgetName{Name: in.Budget, Key: in.Key, Flow: in.Flow, Run: in.Run}
}

// ListBudgets implements httpapi.ListBudgets.
func (s *Service) ListBudgets(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Budget], error) {
	budgets, err := s.client.Budgets(ctx)
	if err != nil {
		return nil, err
	}
	return whole(budgets), nil
}

// GetBudget implements httpapi.GetBudget.
func (s *Service) GetBudget(ctx context.Context, in *httpapi.BudgetInput) (*fabrictype.Budget, error) {
	b, err := s.client.Budget(budgetRef(in)).Describe(ctx)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

// SetBudget implements httpapi.SetBudget.
func (s *Service) SetBudget(ctx context.Context, in *httpapi.SetBudgetInput) (*fabrictype.Budget, error) {
	config := flow.BudgetConfig{
		ResetEvery: in.Body.ResetEvery.Duration, OnExceeded: flow.BudgetEffect(in.Body.Effect),
	}
	bounds := func(limits map[string]int64) map[string]int64 {
		above := make(map[string]int64)
		for dimension, n := range limits {
			if n == 0 {
				config.Counted = append(config.Counted, dimension)
			} else {
				above[dimension] = n
			}
		}
		return above
	}
	config.Hard, config.Soft = bounds(in.Body.Hard), bounds(in.Body.Soft)
	if err := s.setBudget(ctx, in, config); err != nil {
		return nil, err
	}
	return s.GetBudget(ctx, &in.BudgetInput)
}

func (s *Service) setBudget(ctx context.Context, in *httpapi.SetBudgetInput, config flow.BudgetConfig) error {
	ref := budgetRef(&in.BudgetInput)
	if in.IfMatch == "" {
		return s.as(ctx).Budget(ref).Set(ctx, config)
	}
	present, err := s.client.Budget(ref).Describe(ctx)
	if err != nil {
		return gone(err, engine.ErrBudgetNotFound, in.IfMatch)
	}
	if err := matches(in.IfMatch, Tag(&present)); err != nil {
		return err
	}
	if in.IfMatch == "*" {
		return s.as(ctx).Budget(ref).Set(ctx, config)
	}
	return s.as(ctx).Budget(present.BudgetName).Replace(ctx, present, config)
}

// ResetBudget implements httpapi.ResetBudget.
func (s *Service) ResetBudget(ctx context.Context, in *httpapi.BudgetInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Budget(budgetRef(in)).Reset(ctx))
}

// DeleteBudget implements httpapi.DeleteBudget.
func (s *Service) DeleteBudget(ctx context.Context, in *httpapi.BudgetInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Budget(budgetRef(in)).Delete(ctx))
}
