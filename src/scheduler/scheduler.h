// Decides what runs next. No device, clock or thread: same calls, same plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "scheduler/plan.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"
#include "zonda/error.h"

namespace zonda::scheduler {

enum class Policy : uint8_t {
  kGuaranteedNoEvict,  // a request starts when its worst case fits beside those of all others
  kMaxUtilization,     // it starts when its tokens fit; when blocks run out the youngest pauses
};

struct SchedulerConfig {
  Policy policy = Policy::kGuaranteedNoEvict;
  int32_t max_batch_size = 1;    // rows of a step, and sequences that run at a time
  int32_t max_num_tokens = 1;    // tokens of a step
  int32_t max_input_len = 0;     // prompt tokens; 0: bounded by max_seq_len only
  int32_t max_seq_len = 1;       // prompt and output tokens of a sequence
  int32_t max_chunk_tokens = 0;  // prompt tokens of a row; 0: as many as fit
};

struct SchedulerStats {
  int32_t waiting_requests = 0;
  int32_t active_requests = 0;
  int32_t running_sequences = 0;
  int32_t paused_sequences = 0;
};

// Continuous batching in order of arrival: first every sequence that generates, then prompts, cut
// into chunks of whole blocks, then new requests, as far as rows, tokens and blocks last.
// Several plans may be outstanding; a sequence is in one of them at most.
class Scheduler {
 public:
  // `kv_cache` must outlive the scheduler. CHECKs that every limit is at least 1.
  Scheduler(const SchedulerConfig& config, kvcache::KvCacheManager& kv_cache);
  ~Scheduler();

  // Whether the request could ever run. kInvalidArgument for an empty prompt or no sequence;
  // kCapacity with need and limit. Reads constants only: may be called from any thread.
  Result<void> check(const Request& request) const;
  // check(), and kInvalidArgument for an id in use.
  Result<void> add(Request request);
  // Ends the request, or one sequence of it. Blocks are free at once, or with the commit of the
  // plan they are part of. Idempotent; unknown ids are ignored.
  void cancel(RequestId id);
  void cancel_sequence(SequenceKey key);

  // Empty when nothing can run before a commit or an add.
  StepPlan next_step();
  // Follows each non-empty plan, in order. A sequence also finishes at max_new_tokens.
  void commit(const StepResult& result);

  // False once all sequences of the request are finished and their blocks free.
  bool contains(RequestId id) const { return by_id_.contains(id); }
  SchedulerStats stats() const;

 private:
  struct Record;
  struct Planned {
    Record* record = nullptr;
    int32_t sequence = 0;
    int32_t num_tokens = 0;
    int32_t num_reused = 0;
  };
  struct InFlightRow {
    Record* record = nullptr;
    int32_t sequence = 0;
    int32_t end = 0;
    int32_t num_samples = 0;
  };
  struct InFlightStep {
    StepId step = 0;
    std::vector<InFlightRow> rows;
  };
  struct Budget {
    int32_t rows = 0;
    int32_t tokens = 0;
  };
  struct Draft;         // the plan in the making
  struct ResultReader;  // walks through a StepResult

  // next_step, in this order
  void plan_generation(Draft& draft);
  bool make_room(Record& record, int32_t index, Draft& draft);
  void plan_context(Draft& draft);
  void resume_paused(Draft& draft);
  void admit_waiting(Draft& draft);
  bool try_admit(Record& record, int32_t index, Draft& draft);
  bool blocks_allow(const Record& record, const Sequence& sequence,
                    const kvcache::PrefixMatch& known) const;
  StepPlan pack(Draft& draft);
  void pack_row(const Planned& planned, StepPlan& plan, InFlightStep& step);
  int32_t chunk_tokens(int32_t remaining, int32_t budget) const;

  // commit
  void commit_row(const InFlightRow& row, ResultReader& results);
  void apply_result(Record& record, int32_t index, ResultReader& results);
  template <typename Records>
  void erase_done(Records& records);

  // accounting
  int32_t max_blocks(const Record& record) const;
  int64_t worst_case_blocks(const Request& request) const;
  int64_t demand(const Record& record) const;
  int32_t running_sequences() const;
  Sequence* youngest(Record*& record, int32_t& index);

  SchedulerConfig config_;
  kvcache::KvCacheManager& kv_cache_;
  std::deque<std::unique_ptr<Record>> waiting_;
  std::vector<std::unique_ptr<Record>> active_;  // by age
  std::unordered_map<RequestId, Record*> by_id_;
  std::deque<InFlightStep> in_flight_;
  StepId last_step_ = 0;
};

}  // namespace zonda::scheduler
