package io.seqd.example;

import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import org.apache.ibatis.annotations.Mapper;

/** Inserts customers. */
@Mapper
public interface CustomerMapper extends BaseMapper<Customer> {}
