// Decode attention: a block walks through shares of the keys of (sequence, KV head) rows, 64 keys
// at a time, 16 a warp; copies run a few tiles ahead, across rows, and start before the kernel
// ahead has ended. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/dependent.cuh"
#include "kernels/attention/cuda/attention_launch.h"
#include "kernels/attention/cuda/decode_join.cuh"
#include "kernels/attention/cuda/decode_row.cuh"

namespace zonda::kernels::cuda {

template <DType kKv, int kHead, int kStages>
struct DecodeShared {
  static constexpr int kTileBytes = DecodeTileShape<kKv, kHead>::kTileBytes;

  uint4 ring[kStages][kDecodeWarps][kTileBytes / 16];
  DecodeRaw<kHead> raw[kStages];  // of the row that starts at the tile of that stage
  uint4 queries[DecodeTileShape<kKv, kHead>::kQueryChunks * 32];
  NewToken<kKv, kHead> fresh;
  float2 max_sum[kDecodeWarps][kDecodeHeads];
  DecodeWalkScratch scratch;
  bool is_last;
};

// The state of one block. All threads walk together; tiles are private to their warp. What happens
// once a row is kept out of line: the loop over tiles has to fit the instruction cache.
template <DType kKv, int kHead, bool kExact, bool kFused, int kStages>
class DecodeBlock {
 public:
  using Shape = DecodeTileShape<kKv, kHead>;
  using Warp = DecodeWarp<kKv, kHead>;
  using Shared = DecodeShared<kKv, kHead, kStages>;

  __device__ __forceinline__ DecodeBlock(const AttentionParams& params, const DecodePlan& plan,
                                         const RopeAppendParams& rope, Shared& shared,
                                         float4* inbox)
      : p_(params),
        plan_(plan),
        rope_(rope),
        shared_(shared),
        inbox_(inbox),
        loads_(params, kFused ? 1 : 0),
        scale_(params),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_index_(static_cast<int>(threadIdx.x) / 32) {}

  __device__ __forceinline__ void run() {
    if (!kFused) {
      device::cuda::wait_for_previous();
    }
    DecodeRun run;
    const bool works = plan_.cluster > 0 ? find_cluster_work(run, p_, plan_)
                                         : find_balanced_work(run, p_, plan_, shared_.scratch);
    if (works) {
      if (plan_.cluster > 0) {
        arrive_at_cluster();  // nobody sends before every block has begun
      }
      start_copies(run);
    }
    if (kFused) {
      device::cuda::wait_for_previous();
    }
    if (!works) {
      return;
    }
    while (run.end_share > run.first_share) {
      begin_row(run);
      walk(run);
      if (run.place.left == 0) {
        break;
      }
      const int sequence = run.place.sequence;
      run = next_run(p_, plan_.split, run);
      if (run.place.sequence != sequence) {
        enter_sequence(run);
      }
      row_ = DecodeRow(p_, plan_.split, run.place, row_.token);
    }
    if (plan_.cluster > 0) {
      end_cluster(run);
    }
  }

 private:
  static constexpr int kQuads = kDecodeHeads * kHead / 4 / kDecodeThreads;  // of a thread
  static constexpr int kAtOnce = kStages > 1 ? 2 : 1;

  static __device__ __noinline__ void turn(const RopeAppendParams& rope, int64_t token,
                                           int position, NewToken<kKv, kHead>& fresh) {
    fresh.turn(rope, token, position);
  }

  // The first kStages tiles, then what the first row needs of the step's inputs.
  __device__ __forceinline__ void start_copies(const DecodeRun& run) {
    ahead_ = run;
    ahead_token_ = load_early(p_.token_begin + run.place.sequence);
    loads_.enter(p_, run, plan_.split);
    for (int i = threadIdx.x; i < Shape::kQueryChunks * 32; i += kDecodeThreads) {
      shared_.queries[i] = {0, 0, 0, 0};
    }
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      is_ahead_new_ = false;
      copy_next(stage);
    }
    enter_sequence(run);
    row_ = DecodeRow(p_, plan_.split, run.place, row_.token);
    turn_row(run);
  }
  // Into `stage`: the tile that is kStages after the one of this stage.
  __device__ __forceinline__ void copy_next(int stage) {
    if (loads_.has_tile()) {
      if (is_ahead_new_) {
        const DecodeRow row(p_, plan_.split, ahead_.place, ahead_token_);
        copy_raw_heads<kFused, false>(p_, row, shared_.raw[stage]);
        is_ahead_new_ = false;
      }
      loads_.copy(shared_address(shared_.ring[stage][warp_index_]));
      if (!loads_.has_tile() && ahead_.place.left > 0) {
        const int sequence = ahead_.place.sequence;
        ahead_ = next_run(p_, plan_.split, ahead_);
        if (ahead_.place.sequence != sequence) {
          ahead_token_ = load_early(p_.token_begin + ahead_.place.sequence);
        }
        loads_.enter(p_, ahead_, plan_.split);
        is_ahead_new_ = true;
      }
    }
    end_copies();
  }

  __device__ __forceinline__ void enter_sequence(const DecodeRun& run) {
    row_.token = load_early(p_.token_begin + run.place.sequence);
    if (kFused) {
      slot_ = load_early(rope_.slots + row_.token);
    }
    is_turned_ = false;
  }
  __device__ __forceinline__ void turn_row(const DecodeRun& run) {
    if (kFused && !is_turned_) {
      turn(rope_, row_.token, run.end - 1, shared_.fresh);
      is_turned_ = true;
    }
  }
  __device__ __forceinline__ void begin_row(const DecodeRun& run) {
    if (step_ < kStages) {  // its tile was requested before anything of this step could be read
      copy_raw_heads<kFused, true>(p_, row_, shared_.raw[stage_]);
    }
    turn_row(run);
    wait_for_copies<kStages - 1>();
    __syncthreads();
    prepare_row<kKv, kHead, kFused>(p_, plan_.split, rope_, row_, slot_, shared_.raw[stage_],
                                    shared_.fresh, shared_.queries);
    __syncthreads();
  }

  __device__ __forceinline__ void walk(const DecodeRun& run) {
#pragma unroll 1
    for (int share = run.first_share; share < run.end_share; ++share) {
      warp_.start();
      const int end_tile = run.first_tile(share + 1);
      int tile = run.first_tile(share);
#pragma unroll 1
      while (tile < end_tile) {
        // Two tiles at once share a maximum and the cost of the loop.
        const int tiles = kStages > 1 && tile + 1 < end_tile ? 2 : 1;
        if (tiles == 2) {
          wait_for_copies<kStages - kAtOnce>();
          __syncwarp();
          multiply<kAtOnce>(run, tile);
        } else {
          wait_for_copies<kStages - 1>();
          __syncwarp();
          multiply<1>(run, tile);
        }
        tile += tiles;
        __syncwarp();
#pragma unroll 1
        for (int left = tiles; left > 0; --left) {
          if (left == 1 && tile == end_tile) {
            end_share(run, share);
          }
          copy_next(stage_);
          stage_ = next(stage_);
        }
        step_ += tiles;
      }
    }
  }
  static __device__ __forceinline__ int next(int stage) {
    return stage + 1 == kStages ? 0 : stage + 1;
  }

  template <int kTiles>
  __device__ __forceinline__ void multiply(const DecodeRun& run, int tile) {
    const int first = tile * kDecodeTile + warp_index_ * 16;
    const int last = first + (kTiles - 1) * kDecodeTile;
    uint32_t tiles[kTiles];
    tiles[0] = shared_address(shared_.ring[stage_][warp_index_]);
    if constexpr (kTiles == 2) {
      tiles[1] = shared_address(shared_.ring[next(stage_)][warp_index_]);
    }
    if (kFused && last + 16 >= run.end) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        place_new(t == 0 ? stage_ : next(stage_), run.end - 1 - (first + t * kDecodeTile));
      }
    }
    float s[kTiles][4];
    Warp::multiply_keys(s, tiles, shared_.queries, lane_);
    scale_scores(s, scale_);
    if (first < run.begin || last + 16 > run.end) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) {
        const int key = first + i / 4 * kDecodeTile + lane_ / 4 + i % 4 / 2 * 8;
        if (key < run.begin || key >= run.end) {
          s[i / 4][i % 4] = kMinusInfinity;
        }
      }
    }
    warp_.rescale(s);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      warp_.multiply_values(s[t], tiles[t] + Shape::kValues, lane_);
    }
  }
  // The new key and its value, if they are in the tile: they are not in the cache yet.
  __device__ __forceinline__ void place_new(int stage, int row) {
    if (row < 0 || row >= 16) {
      return;
    }
    char* to = reinterpret_cast<char*>(shared_.ring[stage][warp_index_]);
#pragma unroll 1
    for (int i = lane_; i < Shape::kRowChunks; i += 32) {
      *reinterpret_cast<uint4*>(to + Shape::place(row, i)) = shared_.fresh.key[i];
      *reinterpret_cast<uint4*>(to + Shape::kValues + Shape::place(row, i)) =
          shared_.fresh.value[i];
    }
    __syncwarp();
  }

  // Joins the warps' parts, which take the place of the tile they have just used.
  __device__ __forceinline__ void end_share(const DecodeRun& run, int share) {
    const int c = lane_ % 4;
    warp_.finish();
    warp_.store(reinterpret_cast<float*>(shared_.ring[stage_][warp_index_]), lane_ / 4, c,
                row_.heads);
    if (lane_ < 4) {
      shared_.max_sum[warp_index_][2 * c] = {warp_.max[0], warp_.sum[0]};
      shared_.max_sum[warp_index_][2 * c + 1] = {warp_.max[1], warp_.sum[1]};
    }
    __syncthreads();
    const bool is_whole = run.is_whole();
    if (plan_.cluster > 0 && !is_whole && share == run.first_share) {
      wait_for_cluster();
    }
    const int quads = p_.kv.head_size / 4;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int i = static_cast<int>(threadIdx.x) + q * kDecodeThreads;
      if (i < row_.heads * quads) {
        const int head = kExact ? i / (kHead / 4) : i / quads;
        const DecodePart part = join_warps(head, i - head * quads);
        if (is_whole) {
          add_to_whole(run, share, q, i, part);
        } else if (plan_.cluster > 0) {
          ClusterInbox(inbox_, row_.heads * quads, plan_.cluster).send(share, i, part);
        } else {
          StoredShares(p_, plan_.split, run.place.sequence, run.place.row)
              .put(share, i, head, i == head * quads, part);
        }
      }
    }
    if (!is_whole && plan_.cluster == 0 && share + 1 == run.end_share) {
      arrive(p_, plan_.split, run, row_.heads, row_.out, shared_.is_last);
    }
    __syncthreads();
  }
  __device__ __forceinline__ DecodePart join_warps(int head, int quad) const {
    const float* rows =
        reinterpret_cast<const float*>(shared_.ring[stage_][0]) + Warp::stored_at(head, 4 * quad);
    DecodePart part = {{0.0f, 0.0f, 0.0f, 0.0f}, kMinusInfinity, 0.0f};
    float2 of_warp[kDecodeWarps];
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      of_warp[w] = shared_.max_sum[w][head];
      part.max = fmaxf(part.max, of_warp[w].x);
    }
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float4 x = *reinterpret_cast<const float4*>(rows + w * (Shape::kTileBytes / 4));
      part.add(x, of_warp[w].y, exp2_fast(of_warp[w].x - part.max));
    }
    return part;
  }
  __device__ __forceinline__ void add_to_whole(const DecodeRun& run, int share, int q, int i,
                                               const DecodePart& part) {
    if (share == 0) {
      whole_[q] = part;
    } else {
      whole_[q].add(part);
    }
    if (share + 1 == run.end_share) {
      whole_[q].write(p_.out, row_.out + i * 4, p_.activation);
    }
  }

  // The block that brings the last shares of a row joins them.
  static __device__ __noinline__ void arrive(const AttentionParams& p, const DecodeSplit& split,
                                             DecodeRun run, int heads, int64_t out, bool& is_last) {
    __threadfence();
    __syncthreads();
    uint32_t* arrivals = p.arrivals +
                         int64_t{run.place.sequence} * (p.kv.num_kv_heads * split.group_tiles) +
                         run.place.row;
    if (threadIdx.x == 0) {
      const auto mine = static_cast<uint32_t>(run.end_share - run.first_share);
      is_last = atomicAdd(arrivals, mine) + mine == static_cast<uint32_t>(run.shares.count);
    }
    __syncthreads();
    if (!is_last) {
      return;
    }
    __threadfence();
    const int quads = p.kv.head_size / 4;
    const StoredShares stored(p, split, run.place.sequence, run.place.row);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < heads * quads; i += kDecodeThreads) {
      stored.join(run.shares.count, i, i / quads).write(p.out, out + i * 4, p.activation);
    }
    if (threadIdx.x == 0) {
      *arrivals = 0;
    }
  }

  __device__ __forceinline__ void end_cluster(const DecodeRun& run) {
    if (run.end_share == run.first_share || run.is_whole()) {
      wait_for_cluster();  // this block has not sent anything
    }
    if (run.shares.count == 1) {
      return;
    }
    arrive_at_cluster();
    wait_for_cluster();
    const int all = row_.heads * (p_.kv.head_size / 4);
    const ClusterInbox inbox(inbox_, all, plan_.cluster);
    const int first = static_cast<int>(blockIdx.x) % plan_.cluster * inbox.each;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < inbox.each && first + i < all;
         i += kDecodeThreads) {
      inbox.join(inbox_, run.shares.count, i)
          .write(p_.out, row_.out + (first + i) * 4, p_.activation);
    }
  }

  const AttentionParams& p_;
  const DecodePlan& plan_;
  const RopeAppendParams& rope_;
  Shared& shared_;
  float4* inbox_;
  DecodeLoads<kKv, kHead, kExact> loads_;
  ScoreScale scale_;
  const int lane_;
  const int warp_index_;
  Warp warp_;
  DecodePart whole_[kQuads];  // of a row whose shares are all this block's
  DecodeRun ahead_;           // of the tile to copy next
  int64_t ahead_token_ = 0;
  bool is_ahead_new_ = false;
  int stage_ = 0;  // of the present tile
  int step_ = 0;   // tiles before it
  DecodeRow row_;  // the present one
  int64_t slot_ = -1;
  bool is_turned_ = false;
};

// kFused: q is not rotated yet and the new key and value are still in rope.qkv; otherwise rope is
// not used. Dynamic shared memory: DecodeShared, then the inbox of a cluster.
template <DType kKv, int kHead, bool kExact, bool kFused, int kStages>
__global__ void __launch_bounds__(kDecodeThreads, 2)
    decode_kernel(const __grid_constant__ AttentionParams p,
                  const __grid_constant__ DecodePlan plan,
                  const __grid_constant__ RopeAppendParams rope) {
  using Shared = DecodeShared<kKv, kHead, kStages>;
  extern __shared__ uint4 memory[];
  device::cuda::allow_next();
  DecodeBlock<kKv, kHead, kExact, kFused, kStages> block(
      p, plan, rope, *reinterpret_cast<Shared*>(memory),
      reinterpret_cast<float4*>(memory + sizeof(Shared) / 16));
  block.run();
}

}  // namespace zonda::kernels::cuda
