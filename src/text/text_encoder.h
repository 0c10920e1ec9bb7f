// One call of Tokenizer::encode: sections, pieces, ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "text/tokenizer_parts.h"

namespace zonda::text {

class TextEncoder {
 public:
  // `allow_special`: where in `text`, which is valid UTF-8, special tokens may be recognised.
  // All arguments outlive this.
  TextEncoder(const Tokenizer::Parts& parts, std::string_view text,
              const AddedTokens::AllowSpecial& allow_special);

  // Fault if a regular expression exceeds its limits.
  std::vector<int32_t> ids() &&;
  Encoding encoding() &&;

 private:
  void run();
  void encode_stretch(ByteRange range);
  void encode_normalized(AlignedText text);
  void encode_plain(ByteRange range);
  void encode_pieces(Pieces pieces);
  void add_token(const AddedToken& token, std::string_view matched, ByteRange source);

  const Tokenizer::Parts& parts_;
  std::string_view text_;
  const AddedTokens::AllowSpecial& allow_special_;
  bool full_ = false;   // pieces and offsets are wanted
  bool track_ = false;  // rewritten text keeps its origins
  Encoding out_;
};

// Leaves white space at the edges of each token out of its offsets.
void trim_offsets(bool add_prefix_space, Encoding& encoding);

}  // namespace zonda::text
